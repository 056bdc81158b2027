"""The record model: schema, types, hidden columns, and the policy for bad records."""
