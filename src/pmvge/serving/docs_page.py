"""A page that shows the OpenAPI description of the server, without scripts or other files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from html import escape
from typing import Any

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h2 code { background: none; padding: 0; }
code, pre { background: #8882; padding: .1rem .3rem; border-radius: .2rem; overflow-x: auto; }
pre { padding: .6rem; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .25rem .6rem .25rem 0; }
th, td { border-bottom: 1px solid #8884; }
:root { color-scheme: light dark; }
"""
Schema = Mapping[str, Any]


def docs_page(api: Mapping[str, Any]) -> str:
    """Return an HTML page with the routes of an OpenAPI description, and their fields."""
    schemas = api.get("components", {}).get("schemas", {})
    parts = [
        _route(method, path, operation, schemas)
        for path, methods in api["paths"].items()
        for method, operation in methods.items()
    ]
    title = escape(api["info"]["title"])
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f"<style>{STYLE}</style></head><body><h1>{title}</h1>"
        f"<p>{escape(api['info'].get('description', ''))}</p>"
        f'<p>The same as data: <a href="openapi.json">openapi.json</a>.</p>{"".join(parts)}'
        "</body></html>"
    )


def _route(
    method: str, path: str, operation: Mapping[str, Any], schemas: Mapping[str, Schema]
) -> str:
    lines = [
        f"<h2><code>{escape(method.upper())} {escape(path)}</code></h2>",
        f"<p>{escape(operation.get('description', ''))}</p>",
    ]
    body = operation.get("requestBody", {}).get("content", {}).get("application/json")
    if body:
        lines.append(f"<h3>Request</h3>{_fields(body['schema'], schemas)}")
        for name, example in body.get("examples", {}).items():
            text = json.dumps(example["value"], indent=1)
            lines.append(f"<p>{escape(name)}:</p><pre>{escape(text)}</pre>")
    for status, answer in operation.get("responses", {}).items():
        content = answer.get("content", {}).get("application/json", {})
        if status == "200" and content.get("schema"):
            lines.append(f"<h3>Answer</h3>{_fields(content['schema'], schemas)}")
    others = "".join(
        f"<tr><td>{escape(status)}</td><td>{escape(answer.get('description', ''))}</td></tr>"
        for status, answer in operation.get("responses", {}).items()
        if status != "200"
    )
    return "".join(lines) + (f"<h3>Errors</h3><table>{others}</table>" if others else "")


def _fields(schema: Schema, schemas: Mapping[str, Schema]) -> str:
    """Return a table of the fields of a schema."""
    found = _resolve(schema, schemas)
    required = found.get("required", [])
    rows = "".join(
        f"<tr><td><code>{escape(name)}</code></td><td>{escape(_kind(field, schemas))}"
        f"{' (needed)' if name in required else ''}</td>"
        f"<td>{escape(field.get('description', ''))}</td></tr>"
        for name, field in found.get("properties", {}).items()
    )
    return f"<table>{rows}</table>"


def _resolve(schema: Schema, schemas: Mapping[str, Schema]) -> Schema:
    name = schema.get("$ref", "").rpartition("/")[2]
    return schemas.get(name, schema)


def _kind(schema: Schema, schemas: Mapping[str, Schema]) -> str:
    """Return the type of a field in words; objects show their fields."""
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_kind(part, schemas) for part in schema["anyOf"]))
    if "enum" in schema:
        return " or ".join(json.dumps(value) for value in schema["enum"])
    found = _resolve(schema, schemas)
    if found.get("type") == "array":
        return f"list of ({_kind(found.get('items', {}), schemas)})"
    if found.get("type") == "object" and "properties" in found:
        inner = (f"{name}: {_kind(part, schemas)}" for name, part in found["properties"].items())
        return "{" + ", ".join(inner) + "}"
    if found.get("type") == "object":
        values = found.get("additionalProperties")
        return f"object of ({_kind(values, schemas)})" if isinstance(values, Mapping) else "object"
    return str(found.get("type", "any value"))
