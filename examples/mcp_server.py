"""A server of the Model Context Protocol with one tool, in the standard library alone.

leeward mcp add words -- python3 /path/to/examples/mcp_server.py
"""

import json
import sys
from pathlib import Path

TOOL = {
    "name": "count_words",
    "description": "Count the words of a text file.",
    "inputSchema": {
        "type": "object",
        "properties": {"path": {"type": "string", "description": "The file, relative to the workspace."}},
        "required": ["path"],
    },
    "annotations": {"readOnlyHint": True},
}


def answered(method: str, params: dict) -> dict:
    """Return the result of a request."""
    if method == "initialize":
        server = {"name": "words", "version": "1.0"}
        version = params["protocolVersion"]
        return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": server}
    if method == "tools/list":
        return {"tools": [TOOL]}
    try:
        text, failed = Path(params["arguments"]["path"]).read_text(encoding="utf-8"), False
    except OSError as error:
        return {"content": [{"type": "text", "text": str(error)}], "isError": True}
    return {"content": [{"type": "text", "text": f"{len(text.split())} words"}], "isError": failed}


for line in sys.stdin:
    request = json.loads(line)
    if "id" in request and "method" in request:
        result = answered(request["method"], request.get("params", {}))
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)
