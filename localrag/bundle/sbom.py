"""`sbom.cdx.json`: what a bundle, or the running installation, is made of, as CycloneDX."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from email.message import Message
from importlib.metadata import distribution
from pathlib import Path
from typing import TYPE_CHECKING, cast

from localrag.bundle.manifest import File
from localrag.bundle.own_wheel import DISTRIBUTION
from localrag.bundle.wheel_file import Wheel, licence_of
from localrag.models.registry.spec import ModelSpec
from localrag.system.files import write_output

if TYPE_CHECKING:
    from cyclonedx.model import Property
    from cyclonedx.model.bom import Bom
    from cyclonedx.model.component import Component

SBOM = "sbom.cdx.json"


def write(
    bundle: Path,
    wheels: Sequence[Wheel],
    needs: Mapping[str, set[str]],
    models: Sequence[ModelSpec],
    files: Sequence[File],
) -> Path:
    """Write the SBOM; returns its path.

    `needs` says by whom each distribution is needed; `files` are the bundle's, with their hashes.
    """
    bom = build(wheels, needs, models, {file.path: file for file in files})
    return write_bom(bom, bundle / SBOM)


def write_bom(bom: Bom, path: Path) -> Path:
    """Write a bill of materials as JSON; returns the path."""
    from cyclonedx.output import make_outputter
    from cyclonedx.schema import OutputFormat, SchemaVersion

    outputter = make_outputter(bom, OutputFormat.JSON, SchemaVersion.V1_6)
    write_output(path, outputter.output_as_string(indent=1))
    return path


def build(
    wheels: Sequence[Wheel],
    needs: Mapping[str, set[str]],
    models: Sequence[ModelSpec],
    files: Mapping[str, File],
) -> Bom:
    """The bill of materials: localrag, its distributions with who needs them, and the models."""
    from cyclonedx.model import HashAlgorithm, HashType

    components: dict[str, Component] = {}
    for wheel in wheels:
        file = files[f"wheels/{wheel.path.name}"]
        component = _package(wheel.name, wheel.version, wheel.metadata)
        component.hashes.add(HashType(alg=HashAlgorithm.SHA_256, content=file.sha256))
        component.properties.update(_properties(file))
        components[wheel.name] = component
    return _assembled(components, needs, [_model(spec, files) for spec in models])


def installed() -> Bom:
    """The bill of materials of the running installation: localrag and all that it needs.

    Raises `importlib.metadata.PackageNotFoundError` where something of that is not installed.
    """
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    components: dict[str, Component] = {}
    needs: dict[str, set[str]] = {}
    todo, seen = [(DISTRIBUTION, "")], set[tuple[str, str]]()
    while todo:
        name, extra = todo.pop()
        if (name, extra) in seen:
            continue
        seen.add((name, extra))
        found = distribution(name)
        metadata = cast(Message, found.metadata)  # which it is
        components.setdefault(name, _package(name, found.version, metadata))
        for wanted in map(Requirement, found.requires or ()):
            if wanted.marker is None or wanted.marker.evaluate({"extra": extra}):
                other = canonicalize_name(wanted.name)
                needs.setdefault(other, set()).add(name)
                todo += [(other, each) for each in ("", *wanted.extras)]
    return _assembled(components, needs, [])


def _package(name: str, version: str, metadata: Message) -> Component:
    from cyclonedx.contrib.license.factories import LicenseFactory
    from cyclonedx.model.component import Component, ComponentType
    from packageurl import PackageURL

    licence = licence_of(metadata)
    return Component(
        name=str(metadata["Name"]),
        version=version,
        type=ComponentType.APPLICATION if name == DISTRIBUTION else ComponentType.LIBRARY,
        bom_ref=f"{name}=={version}",
        purl=PackageURL("pypi", None, name, version),
        description=str(metadata.get("Summary") or "") or None,
        licenses=[LicenseFactory().make_from_string(licence)] if licence else None,
    )


def _assembled(
    components: Mapping[str, Component], needs: Mapping[str, set[str]], models: list[Component]
) -> Bom:
    from cyclonedx.model.bom import Bom

    bom = Bom()
    bom.metadata.component = components[DISTRIBUTION]
    bom.components.update(each for name, each in components.items() if name != DISTRIBUTION)
    bom.components.update(models)
    for name, component in components.items():
        needed = [components[other] for other, by in needs.items() if name in by and other != name]
        bom.register_dependency(component, needed + (models if name == DISTRIBUTION else []))
    return bom


def _model(spec: ModelSpec, files: Mapping[str, File]) -> Component:
    from cyclonedx.contrib.license.factories import LicenseFactory
    from cyclonedx.model import HashAlgorithm, HashType
    from cyclonedx.model.component import Component, ComponentType

    # A model's hash is that of its largest file; every file has its own below it.
    own = [files[f"models/{spec.id}/{file.path}"] for file in spec.files]
    parts = [
        Component(
            name=file.path,
            type=ComponentType.FILE,
            bom_ref=file.path,
            hashes=[HashType(alg=HashAlgorithm.SHA_256, content=file.sha256)],
        )
        for file in own
    ]
    weights = max(own, key=lambda file: file.bytes)
    return Component(
        name=spec.id,
        type=ComponentType.MACHINE_LEARNING_MODEL,
        bom_ref=f"model:{spec.id}",
        description=spec.title,
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=weights.sha256)],
        licenses=[LicenseFactory().make_from_string(spec.licence)] if spec.licence else None,
        components=parts,
    )


def _properties(file: File) -> list[Property]:
    from cyclonedx.model import Property

    return [Property(name="localrag:file", value=file.path)]
