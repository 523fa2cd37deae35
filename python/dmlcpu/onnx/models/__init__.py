"""ONNX models: read and checked, rewritten where nodes stand for others, and parts of them as models of their own."""
