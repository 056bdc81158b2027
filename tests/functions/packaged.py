"""What an entry point names."""

from rs_assets import function


@function
def own_packaged(n: int) -> int:
    return n
