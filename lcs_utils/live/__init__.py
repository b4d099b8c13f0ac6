"""The live page of the web edition: our nets as ONNX, run in the reader's browser by onnxruntime-web.

`export` writes the graphs, `noise` draws the same noise in Python and in the browser, `stored` computes what
stands on the page before anything runs, `runtime` brings onnxruntime-web from npm, `page` puts it together.
"""
