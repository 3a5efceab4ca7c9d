"""SPARQL engines that tests start as servers of their own: Oxigraph, Apache Jena and Virtuoso."""
