#!/usr/bin/env python3
"""Makes the schemas that chart.sh holds the chart against.

    tests/packages/kubernetes-schemas/make.py DEFINITIONS.json

DEFINITIONS.json are the strict definitions of a release of Kubernetes, such as
`kubernetes-json-schema/v1.31.0-local-strict/_definitions.json` of kubernetes-validate (PyPI). Each
kind that the chart makes gets a file with all that it refers to, without the descriptions, so that
kubeconform needs no network. Kubernetes is licensed under Apache-2.0, and so are these.
"""

import json
import sys
from pathlib import Path

HERE = Path(__file__).parent
KINDS = {
    "configmap-v1": "io.k8s.api.core.v1.ConfigMap",
    "deployment-apps-v1": "io.k8s.api.apps.v1.Deployment",
    "persistentvolumeclaim-v1": "io.k8s.api.core.v1.PersistentVolumeClaim",
    "poddisruptionbudget-policy-v1": "io.k8s.api.policy.v1.PodDisruptionBudget",
    "service-v1": "io.k8s.api.core.v1.Service",
    "statefulset-apps-v1": "io.k8s.api.apps.v1.StatefulSet",
}
# Of Multus, which is not part of Kubernetes.
NETWORK = {
    "type": "object",
    "additionalProperties": False,
    "required": ["apiVersion", "kind", "metadata", "spec"],
    "properties": {
        "apiVersion": {"const": "k8s.cni.cncf.io/v1"},
        "kind": {"const": "NetworkAttachmentDefinition"},
        "metadata": {"$ref": "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"},
        "spec": {
            "type": "object",
            "additionalProperties": False,
            "required": ["config"],
            "properties": {"config": {"type": "string"}},
        },
    },
}


def bare(node):
    """Without what only people read; references stay within the file."""
    if isinstance(node, list):
        return [bare(one) for one in node]
    if not isinstance(node, dict):
        return node
    left = {}
    for key, value in node.items():
        if key == "description" and isinstance(value, str):
            continue
        if key.startswith("x-kubernetes"):
            continue
        if key == "$ref":
            value = "#/definitions/" + value.rsplit("/", 1)[1]
        left[key] = bare(value)
    return left


def references(node):
    """Names of the definitions that a schema refers to."""
    if isinstance(node, list):
        for one in node:
            yield from references(one)
    elif isinstance(node, dict):
        for key, value in node.items():
            if key == "$ref":
                yield value.rsplit("/", 1)[1]
            else:
                yield from references(value)


def whole(schema, definitions):
    """A schema with all that it refers to."""
    needed, open_ones = {}, list(references(schema))
    while open_ones:
        name = open_ones.pop()
        if name not in needed:
            needed[name] = bare(definitions[name])
            open_ones.extend(references(needed[name]))
    return {**schema, "definitions": dict(sorted(needed.items()))}


def main():
    """Writes the files."""
    definitions = json.loads(Path(sys.argv[1]).read_text())
    definitions = definitions["$defs"]
    schemas = {file: bare(definitions[name]) for file, name in KINDS.items()}
    schemas["networkattachmentdefinition-k8s-v1"] = NETWORK
    for file, schema in schemas.items():
        text = json.dumps(whole(schema, definitions), separators=(",", ":"), sort_keys=True)
        (HERE / f"{file}.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
