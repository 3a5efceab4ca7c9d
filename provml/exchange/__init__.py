"""Import and export of what other systems write.

dnnprov   a database dump of DNNProv, Keras-Prov or CNNProv, as journals
"""
