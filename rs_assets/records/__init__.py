"""What a record is: its schema, its types, its hidden columns, and the policy for a bad one."""
