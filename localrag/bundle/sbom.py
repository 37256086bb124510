"""`sbom.cdx.json`: what a bundle is made of, as CycloneDX."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from localrag.bundle.manifest import File
from localrag.bundle.wheel_file import Wheel
from localrag.registry.spec import ModelSpec

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
    from cyclonedx.output import make_outputter
    from cyclonedx.schema import OutputFormat, SchemaVersion

    bom = build(wheels, needs, models, {file.path: file for file in files})
    path = bundle / SBOM
    outputter = make_outputter(bom, OutputFormat.JSON, SchemaVersion.V1_6)
    outputter.output_to_file(str(path), allow_overwrite=True, indent=1)
    return path


def build(
    wheels: Sequence[Wheel],
    needs: Mapping[str, set[str]],
    models: Sequence[ModelSpec],
    files: Mapping[str, File],
) -> Bom:
    """The bill of materials: localrag, its distributions with who needs them, and the models."""
    from cyclonedx.contrib.license.factories import LicenseFactory
    from cyclonedx.model import HashAlgorithm, HashType
    from cyclonedx.model.bom import Bom
    from cyclonedx.model.component import Component, ComponentType
    from packageurl import PackageURL

    licences = LicenseFactory()
    bom = Bom()
    components: dict[str, Component] = {}
    for wheel in wheels:
        file = files[f"wheels/{wheel.path.name}"]
        own = wheel.name == "localrag"
        components[wheel.name] = Component(
            name=str(wheel.metadata["Name"]),
            version=wheel.version,
            type=ComponentType.APPLICATION if own else ComponentType.LIBRARY,
            bom_ref=f"{wheel.name}=={wheel.version}",
            purl=PackageURL("pypi", None, wheel.name, wheel.version),
            description=str(wheel.metadata.get("Summary") or "") or None,
            hashes=[HashType(alg=HashAlgorithm.SHA_256, content=file.sha256)],
            licenses=[licences.make_from_string(wheel.licence)] if wheel.licence else None,
            properties=_properties(file),
        )
    bom.metadata.component = components["localrag"]
    for name, component in components.items():
        if name != "localrag":
            bom.components.add(component)
    model_components = [_model(spec, files) for spec in models]
    bom.components.update(model_components)
    for name, component in components.items():
        needed = [components[other] for other, by in needs.items() if name in by and other != name]
        if name == "localrag":
            needed += model_components
        bom.register_dependency(component, needed)
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
