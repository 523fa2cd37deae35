"""Images of other sizes, or with pixels at other places."""
