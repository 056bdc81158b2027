"""What happened, into the catalog and to those who follow a source."""
