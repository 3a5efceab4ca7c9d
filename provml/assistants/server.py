"""The tools of a home behind the official SDK of the Model Context Protocol."""

from __future__ import annotations

import json
import logging
from typing import Any

import anyio
import anyio.to_thread

import provml
from provml.assistants.tools import Tool, Toolbox, describe_error
from provml.errors import MissingDependency, ProvmlError

try:
    import mcp_types as types
    from mcp.server import Server
    from mcp.server.stdio import stdio_server
except ImportError as error:
    raise MissingDependency("the mcp SDK", "mcp") from error

logger = logging.getLogger("provml.assistants")
INSTRUCTIONS = (
    "The recorded provenance of model trainings: what each run used, did and produced, as a PROV knowledge graph. "
    "Begin with list_runs. The tools ask_… answer questions by name; sparql answers any other."
)


def create_server(toolbox: Toolbox) -> Server[Any]:
    """Return a server with the tools of a home."""

    async def list_tools(context: Any, params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[_describe(tool) for tool in toolbox.tools.values()])

    async def call_tool(context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        try:
            result = await anyio.to_thread.run_sync(toolbox.call, params.name, params.arguments)
        except ProvmlError as error:
            return types.CallToolResult(content=[types.TextContent(text=describe_error(error))], is_error=True)
        except Exception:
            logger.exception("tool %s failed", params.name)
            message = "The tool failed. The log of provml has the details."
            return types.CallToolResult(content=[types.TextContent(text=message)], is_error=True)
        text = json.dumps(result, ensure_ascii=False)
        return types.CallToolResult(content=[types.TextContent(text=text)], structured_content=result)

    return Server(
        "provml",
        version=provml.__version__,
        title="provml",
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def _describe(tool: Tool) -> types.Tool:
    hints = types.ToolAnnotations(
        read_only_hint=not tool.writes, destructive_hint=False, idempotent_hint=not tool.writes, open_world_hint=False
    )
    return types.Tool(
        name=tool.name,
        title=tool.title or None,
        description=tool.description,
        input_schema=tool.input_schema,
        annotations=hints,
    )


def serve_stdio(toolbox: Toolbox) -> None:
    """Answer on standard input and output until the client closes them."""

    async def run() -> None:
        server = create_server(toolbox)
        async with stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())

    anyio.run(run)
