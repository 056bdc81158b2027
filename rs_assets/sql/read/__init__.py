"""Reading SQL: text to tokens, tokens to statements, and checks for unsupported syntax."""
