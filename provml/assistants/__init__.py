"""The runs of a home as tools for assistants, by the Model Context Protocol. Extra: `mcp`.

tools    what can be asked, with the types of the parameters, and bounded answers
server   the tools behind the official SDK, for `provml mcp` and for `/mcp` on a service

Nothing here is imported by `import provml`.
"""
