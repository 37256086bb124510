"""`sbom.cdx.json`: what a bundle, or the running installation, is made of, as CycloneDX."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from email.message import Message
from importlib.metadata import distribution
from pathlib import Path
from typing import cast

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output import make_outputter
from cyclonedx.schema import OutputFormat, SchemaVersion
from packageurl import PackageURL
from packaging.requirements import Requirement

from localrag.bundle.installer.manifest import File
from localrag.bundle.localrag_wheel import DISTRIBUTION
from localrag.bundle.wheel import Wheel, licence_of
from localrag.bundle.wheels import JoinedRequirement, resolve
from localrag.models.llms.llama_cpp import prebuilt
from localrag.models.registry.spec import ModelSpec
from localrag.system.files import write_output

SBOM = "sbom.cdx.json"


def write(bom: Bom, path: Path) -> None:
    """Write a bill of materials as JSON."""
    outputter = make_outputter(bom, OutputFormat.JSON, SchemaVersion.V1_6)
    write_output(path, outputter.output_as_string(indent=1))


def of_bundle(
    wheels: Sequence[Wheel],
    needs: Mapping[str, JoinedRequirement],
    models: Sequence[ModelSpec],
    files: Sequence[File],
) -> Bom:
    """The bill of materials of a bundle with these files: its distributions and its models."""
    by_path = {file.path: file for file in files}
    components: dict[str, Component] = {}
    for wheel in wheels:
        file = by_path[f"wheels/{wheel.path.name}"]
        component = _package(wheel.name, wheel.version, wheel.metadata)
        component.hashes.add(_hash(file))
        component.properties.add(Property(name="localrag:file", value=file.path))
        components[wheel.name] = component
    return _assemble(components, needs, [_model(spec, by_path) for spec in models])


def installed() -> Bom:
    """The bill of materials of the running installation: localrag and all that it needs.

    Raises `importlib.metadata.PackageNotFoundError` where something of that is not installed.
    """
    # Nothing requires the library of llama.cpp that stands in for a compiled one.
    path = prebuilt.find()
    needs = resolve(
        [DISTRIBUTION, *([prebuilt.distribution(path)] if path else [])],
        lambda name: map(Requirement, distribution(name).requires or ()),
        {},
    )
    components = {}
    for name in needs:
        package = distribution(name)
        components[name] = _package(name, package.version, cast(Message, package.metadata))
    return _assemble(components, needs, [])


def _package(name: str, version: str, metadata: Message) -> Component:
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


def _assemble(
    components: Mapping[str, Component],
    needs: Mapping[str, JoinedRequirement],
    models: list[Component],
) -> Bom:
    bom = Bom()
    bom.metadata.component = components[DISTRIBUTION]
    bom.components.update(
        component for name, component in components.items() if name != DISTRIBUTION
    )
    bom.components.update(models)
    for name, component in components.items():
        needed = [
            components[other] for other, need in needs.items() if name in need.by and other != name
        ]
        bom.register_dependency(component, needed + (models if name == DISTRIBUTION else []))
    return bom


def _model(spec: ModelSpec, files: Mapping[str, File]) -> Component:
    # A model's hash is that of its largest file; every file has its own below it.
    own = [files[f"models/{spec.id}/{file.path}"] for file in spec.files]
    parts = [
        Component(
            name=file.path,
            type=ComponentType.FILE,
            bom_ref=file.path,
            hashes=[_hash(file)],
        )
        for file in own
    ]
    return Component(
        name=spec.id,
        type=ComponentType.MACHINE_LEARNING_MODEL,
        bom_ref=f"model:{spec.id}",
        description=spec.title,
        hashes=[_hash(max(own, key=lambda file: file.bytes))],
        licenses=[LicenseFactory().make_from_string(spec.licence)] if spec.licence else None,
        components=parts,
    )


def _hash(file: File) -> HashType:
    return HashType(alg=HashAlgorithm.SHA_256, content=file.sha256)
