"""Quantized ONNX models: sessions with onnxruntime's names, and onnx's Backend interface (``dmlcpu.onnx.backend``).

A file is read and checked (``model``). Its nodes are lowered to native graphs for the shapes that are fed (``values``,
``lowering``, ``rules``, ``planning``); nodes of constants are computed then (``folding``); what has no kernel is cut
out for another runtime (``extraction``, ``foreign_parts``). The parts run one after the other (``execution``,
``foreign_runner``, ``session``).
"""
