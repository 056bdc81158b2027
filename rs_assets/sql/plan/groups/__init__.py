"""Groups, windows over rows and rankings of SQL as fluent steps."""
