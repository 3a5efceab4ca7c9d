"""Pictures as SVG, HTML and text: pure functions over rows and nodes, without the store and without other packages.

text          width of text without a font, shortening, escaping
palette       the colours of PROV, of series, and of the page in light and dark
svg           the document and the style of all pictures
layout        layered layout of a graph
compound      layout of a graph whose nodes are in groups
graph         nodes, edges and groups to draw
records       what a store says about a lineage
folding       large lineages folded to a readable size
lineage       the lineage of a thing, in all formats
lineage_svg   a provenance graph as SVG
lineage_text  a provenance graph as DOT, Mermaid and a tree
chart         curves as SVG
document      text, tables and pictures as an HTML page or as Markdown
"""
