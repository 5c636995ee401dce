"""An MCP server on standard streams, made of nothing but Python, that does wrong what it is told to do wrong."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

FAULTS = set(sys.argv[1:])
LIFETIME = 120  # seconds


def say(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def text(words: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": words}]}


def tool(name: str, schema: Any = None, **more: Any) -> dict[str, Any]:
    return {"name": name, "inputSchema": {"type": "object", "properties": {}} if schema is None else schema, **more}


NAMES = ("echo", "pid", "hang", "die", "last", "huge", "endless", "refuse", "nonsense", "fail", "count", "slow", "half")
BAD_TOOLS = [
    tool("no_object", {"type": "string"}),
    tool("no_schema", "nothing"),
    tool("no_type", {"type": "object", "properties": {"a": {"type": "strng"}}}),
    tool("no_list", {"type": "object", "required": "a"}),
    tool("good", {}),
    {"inputSchema": {"type": "object"}},
    "not even an object",
    tool("good"),
    tool(""),
    tool("  "),
]


def listing(params: dict[str, Any]) -> dict[str, Any]:
    if "bad-schemas" in FAULTS:
        return {"tools": BAD_TOOLS}
    if "endless-list" in FAULTS:
        return {"tools": [tool(f"t{time.monotonic_ns()}")], "nextCursor": str(time.monotonic_ns())}
    if "no-list" in FAULTS:
        return {"tools": "none"}
    page = int(params.get("cursor", 0))
    more = {"nextCursor": str(page + 1)} if page + 5 * (page + 1) < len(NAMES) and 5 * (page + 1) < len(NAMES) else {}
    return {"tools": [tool(name) for name in NAMES[5 * page : 5 * page + 5]], **more}


def call(name: str, arguments: dict[str, Any], number: object) -> dict[str, Any] | None:  # noqa: C901
    match name:
        case "echo":
            return text(json.dumps(arguments))
        case "pid":
            return text(str(os.getpid()))
        case "hang":
            return None
        case "slow":
            time.sleep(arguments["seconds"])
            return text("at last")
        case "die":
            sys.stderr.write("I cannot go on.\n")
            sys.stderr.flush()
            os._exit(3)
        case "last":
            say({"id": number, "result": text("my last answer")})
            os._exit(0)
        case "count":
            with Path(arguments["file"]).open("a") as file:
                file.write("x")
            if arguments.get("die"):
                os._exit(1)
            return text("counted")
        case "huge":
            return text("x" * arguments["size"])
        case "endless":
            while True:
                sys.stdout.write("x" * 100_000)
                sys.stdout.flush()
        case "refuse":
            say({"id": number, "error": {"code": -32602, "message": "not with me"}})
        case "nonsense":
            return {"content": "no list"}
        case "half":
            return text("three \ud83d halves")
        case "fail":
            return {**text("it is broken"), "isError": True}
        case _:
            say({"id": number, "error": {"code": -32601, "message": f"no tool {name}"}})
    return None


def answer(method: str, params: dict[str, Any], number: object) -> dict[str, Any] | None:
    match method:
        case "initialize":
            about = {"name": "broken", "version": "1"}
            return {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": about}
        case "tools/list":
            return None if "hang-list" in FAULTS else listing(params)
        case "tools/call":
            return call(params["name"], params.get("arguments", {}), number)
        case _:
            say({"id": number, "error": {"code": -32601, "message": "no such method"}})
            return None


def main() -> None:
    signal.alarm(LIFETIME)  # whatever it was told, and whoever is there to end it
    if "stubborn" in FAULTS:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if "dead" in FAULTS:
        sys.stderr.write("no licence found\n")
        sys.exit(7)
    if "chatty" in FAULTS:
        sys.stdout.write("Welcome to the server!\n\n{not json\n")
        sys.stdout.flush()
    while "hang-connect" in FAULTS:
        time.sleep(1)
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message and "method" in message:
            result = answer(message["method"], message.get("params", {}), message["id"])
            if result is not None:
                say({"id": message["id"], "result": result})
    while "stubborn" in FAULTS:
        time.sleep(1)


main()
