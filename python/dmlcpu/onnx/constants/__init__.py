"""What is computed while a model is planned: nodes of constants, and shapes that are known only later."""
