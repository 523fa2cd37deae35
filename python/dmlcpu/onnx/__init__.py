"""Quantized ONNX models: sessions with onnxruntime's names, and onnx's Backend interface (``dmlcpu.onnx.backend``).

A file is read and checked (``models``). Its nodes are lowered to native graphs for the shapes that are fed (``values``,
``lowering``, ``node_lowering``, ``rules``); nodes of constants are computed then (``constants``); what has no kernel is
cut out for another runtime (``foreign``). Plans hold the parts, and run one after the other (``planning``). ``session``
puts it together for callers; ``feeds``, ``options`` and ``session_arguments`` check what these pass.
"""
