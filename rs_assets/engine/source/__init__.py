"""Where rows come from: the readers of every kind of source, and what happens to records that cannot be used."""
