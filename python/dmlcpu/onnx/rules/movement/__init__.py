"""What moves elements and computes none: views, slices, elements chosen and placed by indices, padding."""
