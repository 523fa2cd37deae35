"""Graphs of operators that run in one native call.

``GraphDesc`` describes a graph by nodes and edges, as ``DML_GRAPH_DESC`` does, for ``Device.compile_graph``;
``GraphBuilder`` makes one from calls of the package's functions on expressions.
"""
