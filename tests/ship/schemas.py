"""JSON schemas for kubeconform, out of what Kubernetes and the Prometheus operator publish.

Every object with listed properties is closed, so that a misspelt field is an error.
"""

import json

import yaml

# Fields of any JSON type, which the OpenAPI text describes as strings or objects.
ANYTHING = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": {"type": ["string", "number"]},
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": {"type": ["string", "integer"]},
}

# The kinds that a namespace's users may have in a chart like ours come in these CRDs.
CRDS = ("podmonitors", "prometheusrules")


def write(source, target):
    """Schemas of `source` (swagger.json and crds/) as files in `target`."""
    for kind, version, schema in [*of_kubernetes(source), *of_crds(source)]:
        (target / f"{kind}-{version}.json".lower()).write_text(json.dumps(schema))


def of_kubernetes(source):
    definitions = json.loads((source / "swagger.json").read_text())["definitions"]
    closed = {name: ANYTHING.get(name) or close(schema) for name, schema in definitions.items()}
    # One copy of the definitions for all kinds; kubeconform follows the reference.
    for name, schema in definitions.items():
        for kind in schema.get("x-kubernetes-group-version-kind", []):
            version = "-".join(filter(None, [kind["group"].split(".")[0], kind["version"]]))
            needed = reachable(closed, name)
            yield kind["kind"], version, {"$ref": f"#/definitions/{name}", "definitions": needed}


def of_crds(source):
    for plural in CRDS:
        crd = yaml.safe_load((source / "crds" / f"monitoring.coreos.com_{plural}.yaml").read_text())
        for version in crd["spec"]["versions"]:
            schema = close(version["schema"]["openAPIV3Schema"])
            # Its text says of the metadata only that it is an object.
            schema["properties"]["metadata"] = {"type": "object"}
            yield crd["spec"]["names"]["kind"], f"monitoring-{version['name']}", schema


def reachable(definitions, name):
    """The definitions that `name` refers to, directly or not."""
    found, ahead = {}, [name]
    while ahead:
        name = ahead.pop()
        if name not in found:
            found[name] = definitions[name]
            ahead += references(definitions[name])
    return found


def references(schema):
    if isinstance(schema, list):
        return [name for item in schema for name in references(item)]
    if not isinstance(schema, dict):
        return []
    own = [schema["$ref"].rsplit("/", 1)[1]] if isinstance(schema.get("$ref"), str) else []
    return own + [name for item in schema.values() for name in references(item)]


def close(schema):
    """The schema with `additionalProperties: false` wherever properties are listed."""
    if isinstance(schema, list):
        return [close(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("x-kubernetes-int-or-string"):
        return {"type": ["string", "integer"]}
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        return {}
    closed = {key: close(value) for key, value in schema.items()}
    if isinstance(schema.get("properties"), dict) and "additionalProperties" not in schema:
        closed["additionalProperties"] = False
    return closed
