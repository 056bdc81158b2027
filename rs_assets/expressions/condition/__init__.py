"""Conditions: `(age,>,int,18)&(name,like,'a%')`."""
