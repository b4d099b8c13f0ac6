"""The live page of the web edition: our nets as ONNX, run in the reader's browser by onnxruntime-web.

`export` writes the graphs, `noise` draws the same noise in Python and in the browser, `stored` computes what
the page shows before anything runs, `runtime` gets onnxruntime-web from npm, `page` assembles the page.
"""
