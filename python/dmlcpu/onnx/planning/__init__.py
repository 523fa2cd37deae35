"""Plans of models for shapes of their inputs: made, kept, made again for other lengths, and run."""
