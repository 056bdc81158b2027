"""Reading SQL: text to tokens, tokens to statements, and what the parser accepts but no rule supports."""
