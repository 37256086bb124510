"""PDF files, read with PyMuPDF: `reader` takes a file, `page` and `tables` one page of it."""

from localrag.egress import network

network.quieten()  # before any module of this folder: PyMuPDF imports ONNX Runtime
