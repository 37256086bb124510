"""How a person reads what the other rooms return as plain values, in either language."""
