"""Protected rows: schema, object tables and overlap checks."""
