"""Quantized ONNX models: sessions with onnxruntime's names, and onnx's Backend interface (``dmlcpu.onnx.backend``).

Each of these imports at run time only what is told of before it.

What nodes are refused with is in ``refusals``, which packages are there in ``missing_package``, which of onnxruntime's
names are not in ``absent_names``, the names of ONNX's types in ``type_names``, how codes stand for floats in
``parameters``, arrays that are known or follow from lengths in ``constant_arrays``, what is known of a model's values
in ``values``. A file is read and checked (``models``). Weights may stay codes (``coded_weights``), values are counted
(``use_counts``), nodes of constants computed at once (``constants``), and those without a kernel are cut out for
another runtime (``foreign``). Native graphs (``native_partition``) are made (``lowering``) by ``rules`` for nodes,
kernels compute some while the model is planned (``computed_once``), and loops are unrolled (``unrolling``), one node
after the other (``model_values``). Plans for the shapes that are fed hold the parts, and run one after the other
(``planning``). What callers pass is checked (``input_shapes``, ``feeds``, ``options``, ``session_arguments``).
``session`` puts it together for callers, and ``backend`` for onnx's.
"""
