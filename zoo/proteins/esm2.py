"""ESM-2 (Lin et al. 2023, doi:10.1126/science.ade2574), with the parameter names of fair-esm.

What fair-esm's module computes, this one computes: a test holds every layer, the logits and the contacts against it.
Different are what is built (heads on demand, no unused parameter), fused attention, rotary positions that no autocast
rounds, and that padding and special tokens never leave the encoder.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from zoo.core.options import with_defaults
from zoo.errors import InputError, unknown_name
from zoo.proteins.alphabet import MASK, PAD, TOKENS
from zoo.proteins.attention import MapsLayer, Surroundings, TransformerLayer, rotary_tables
from zoo.proteins.esm2_heads import ContactHead, LanguageHead
from zoo.proteins.pooling import MeanPooling, make_pooling
from zoo.proteins.tokens import Tokens

LEVELS = ("sequence", "residue", "token", "pair")
MOST_NUMBERS = 2**26
"""Numbers in the attention maps of the rows that are worked off at once for contacts."""
MASKED_IN_TRAINING = 0.15 * 0.8
"""Share of the tokens that were ``<mask>`` when ESM-2 was trained."""


@dataclass
class Pass:
    """What one pass through the layers gave.

    ``states`` by layer ``(r, t, d)``: 0 is the embedding, the last one normalised. ``maps`` ``(r, layers, heads, t,
    t)``, 0 in padding, if asked for.
    """

    states: dict[int, Tensor] = field(default_factory=dict)
    maps: Tensor | None = None


class ESM2(nn.Module):
    """The encoder.

    Parameters
    ----------
    levels
        What is asked for: ``residue`` (features), ``sequence`` (their pooling), ``token`` (the language model's
        logits) and ``pair`` (logits of contacts); only what they need is built.
    layers, width, heads
        The official sizes: 6, 320, 20 (8M) to 48, 5120, 40 (15B).
    final_norm
        Whether the last layer is followed by ESM-2's own normalisation. An encoder that was cut off below its last
        layer has none there: its features are brought to mean 0 and variance 1, without parameters.
    pooling
        ``mean`` or ``attention`` over residues, or ``first``: the ``<cls>`` token, which ESM-2 was never trained to
        fill.
    token_dropout
        Embed ``<mask>`` as zero and scale by the share of masks, as ESM-2 was trained.
    dropout
        Share of what each layer adds that is left out in training. ESM-2 was trained without; it helps where a few
        thousand labels meet the whole encoder.
    checkpointing
        Keep no activation inside a layer for the backward, but compute it again: less memory, a third more time.

    Notes
    -----
    Contacts need every attention map at once. A protein of 1,000 residues costs about 2.4 GB with the sizes of 8M (120
    maps), 4 GB to train; its labels cost 5 MB.
    """

    VERSION: ClassVar[int] = 1
    HPARAMS: ClassVar[dict[str, Any]] = {
        "layers": 6,
        "width": 320,
        "heads": 20,
        "final_norm": True,
        "pooling": "mean",
        "token_dropout": True,
        "dropout": 0.0,
        "checkpointing": False,
    }
    ENOUGH: ClassVar[dict[str, int]] = {"layers": 2}
    """How many of what only repeats are enough to verify it."""
    ADAPTED: ClassVar[tuple[str, ...]] = ("q_proj", "k_proj", "v_proj", "out_proj", "fc1", "fc2")
    """The layers that get low-rank adapters where nobody names others."""
    answers: ClassVar[frozenset[str]] = frozenset({"token", "pair"})
    """Levels at which the encoder's output is the answer itself, and needs no head."""

    def __init__(self, levels: Sequence[str], **hparams: Any) -> None:
        super().__init__()
        hp = with_defaults("hyper-parameter of esm2", self.HPARAMS, hparams)
        _check(levels, hp)
        width, heads, n = int(hp["width"]), int(hp["heads"]), int(hp["layers"])
        self.levels = tuple(levels)
        self.dims = {"sequence": width, "residue": width, "token": len(TOKENS), "pair": 1}
        self.token_dropout, self.checkpointing = bool(hp["token_dropout"]), bool(hp["checkpointing"])
        self.dropout = float(hp["dropout"])
        self.head_width = width // heads
        self.embed_tokens = nn.Embedding(len(TOKENS), width, padding_idx=PAD)
        nn.init.normal_(self.embed_tokens.weight, std=0.02)
        nn.init.zeros_(self.embed_tokens.weight[PAD])
        self.maps_only = set(levels) == {"pair"}
        whole = n - 1 if self.maps_only else n
        self.layers = nn.ModuleList(TransformerLayer(width, heads, self.dropout) for _ in range(whole))
        if self.maps_only:
            self.layers.append(MapsLayer(width, heads))
        else:
            self.emb_layer_norm_after = nn.LayerNorm(width, elementwise_affine=bool(hp["final_norm"]))
        if "token" in levels:
            self.lm_head = LanguageHead(width, len(TOKENS))
        if "pair" in levels:
            self.contact_head = ContactHead(n * heads)
        self.pooling = make_pooling(hp["pooling"], width) if "sequence" in levels else None
        self.n_layers = n + 1

    def add_contact_head(self, state: Mapping[str, Tensor]) -> None:
        """Build the contact head and give it its tensors, named as in :meth:`state_dict`."""
        layers = [layer for layer in self.layers if isinstance(layer, TransformerLayer)]
        self.contact_head = ContactHead(sum(layer.self_attn.heads for layer in layers))
        names = {name.removeprefix("contact_head."): tensor for name, tensor in state.items()}
        self.contact_head.load_state_dict(names, strict=True)
        self.contact_head.to(self.embed_tokens.weight)

    @classmethod
    def ending_at(cls, hparams: Mapping[str, Any], layer: int) -> dict[str, Any]:
        """Return the hyper-parameters of the encoder that ends after a layer.

        Raises
        ------
        InputError
            If there is no such layer.
        """
        if not 1 <= layer <= hparams["layers"]:
            raise InputError(f"layer {layer}: this encoder has layers 1 to {hparams['layers']}.")
        whole = layer == hparams["layers"]
        return {**hparams, "layers": layer, "final_norm": bool(hparams["final_norm"]) and whole}

    def layer_of(self, name: str) -> int:
        """Return the layer of a parameter: 0 is the embedding, what follows the last block belongs to it."""
        parts = name.split(".")
        if parts[0] == "embed_tokens":
            return 0
        return int(parts[1]) + 1 if parts[0] == "layers" else self.n_layers - 1

    def forward(self, tokens: Tokens) -> dict[str, Tensor]:
        """Return, for the levels asked for, features of residues ``(n, d)`` and sequences ``(b, d)``, and logits.

        Logits of tokens are ``(m, 33)`` for the ``m`` hidden residues, or for all where none is hidden; those of pairs
        ``(sum of n_i^2, 1)``, each protein's matrix row by row.
        """
        last = len(self.layers)
        if self.maps_only:
            return {"pair": self._pairs(tokens)}
        found = self.run(tokens, layers=[last], maps="pair" in self.levels)
        outputs: dict[str, Tensor] = {}
        if "pair" in self.levels:
            outputs["pair"] = torch.cat([m.reshape(-1, 1) for m in self.contact_logits(tokens, found)])
        residues = tokens.to_residues(found.states[last])
        if "residue" in self.levels:
            outputs["residue"] = residues
        if "sequence" in self.levels:
            first = found.states[last].flatten(0, 1).index_select(0, tokens.start)
            outputs["sequence"] = first if self.pooling is None else self.pooling(residues, tokens)
        if "token" in self.levels:
            asked = residues if tokens.hidden is None else residues.index_select(0, tokens.hidden)
            outputs["token"] = self.lm_head(asked, self.embed_tokens.weight)
        return outputs

    def embed(self, tokens: Tokens, level: str, layer: int | None = None) -> Tensor:
        """Return features of a level after a layer, whatever the levels the encoder was made for.

        Parameters
        ----------
        tokens
            The proteins.
        level
            ``residue`` ``(n, d)``, ``sequence`` ``(b, d)``: the encoder's own pooling, else the mean; ``pair``
            ``(sum of n_i^2, 1)``: probabilities of contacts, if there is a contact head.
        layer
            0 is the embedding; by default, and for pairs always, the last.
        """
        if level == "pair":
            return self._pairs(tokens).sigmoid()
        number = len(self.layers) if layer is None else layer
        if self.maps_only and number == len(self.layers):
            raise InputError(
                f"this model was trained for contacts alone, and of its last layer it has nothing but attention. Use "
                f"--layer {number - 1}, or --level pair."
            )
        state = self.run(tokens, layers=[number], until=number).states[number]
        residues = tokens.to_residues(state)
        if level == "residue":
            return residues
        if self.pooling is None and "sequence" in self.levels:
            return state.flatten(0, 1).index_select(0, tokens.start)
        pooled: Tensor = (self.pooling or MeanPooling())(residues, tokens)
        return pooled

    def run(self, tokens: Tokens, *, layers: Iterable[int] = (), maps: bool = False, until: int | None = None) -> Pass:
        """Pass through the layers and keep the states of some, and with ``maps`` every layer's attention.

        The pass ends after layer ``until``, by default the last.
        """
        found, wanted = Pass(), set(layers)
        is_token = tokens.is_token()
        x = self._embed(tokens, is_token)
        cos, sin = rotary_tables(x.shape[1], self.head_width, x)
        visible = is_token[:, None, None, :] if tokens.padded else None
        around = Surroundings(cos, sin, visible)
        if 0 in wanted:
            found.states[0] = x
        weights = []
        for number, layer in enumerate(self.layers[:until], start=1):
            if self.checkpointing and self.training:
                x, own = checkpoint(
                    layer, x, around, maps=maps, use_reentrant=False, preserve_rng_state=self.dropout > 0
                )
            else:
                x, own = layer(x, around, maps=maps)
            if number in wanted and number < len(self.layers):
                found.states[number] = x
            if own is not None:
                weights.append(own)
        if len(self.layers) in wanted:
            found.states[len(self.layers)] = self.emb_layer_norm_after(x)
        if maps:
            between = (is_token.unsqueeze(1) & is_token.unsqueeze(2))[:, None, None]
            found.maps = torch.where(between, torch.stack(weights, dim=1), 0.0)
        return found

    def _embed(self, tokens: Tokens, is_token: Tensor) -> Tensor:
        x: Tensor = self.embed_tokens(tokens.rows)
        if self.token_dropout:
            is_mask = (tokens.rows == MASK) & is_token
            x = x.masked_fill(is_mask.unsqueeze(-1), 0.0)
            share = is_mask.sum(-1).to(x.dtype) / tokens.lengths
            x = x * (1 - MASKED_IN_TRAINING) / (1 - share)[:, None, None]
        return x.masked_fill(~is_token.unsqueeze(-1), 0.0)

    def _pairs(self, tokens: Tokens) -> Tensor:
        """Return ``(sum of n_i^2, 1)`` logits of contacts; without gradients a few rows at a time, for their maps."""
        numbers = self.contact_head.regression.in_features * tokens.rows.shape[1] ** 2
        most = len(tokens.rows) if torch.is_grad_enabled() else max(1, MOST_NUMBERS // numbers)
        logits: list[Tensor] = []
        for rows, lengths in zip(torch.split(tokens.rows, most), torch.split(tokens.lengths, most), strict=True):
            own = replace(tokens, rows=rows, lengths=lengths)
            logits += self.contact_logits(own, self.run(own, maps=True))
        return torch.cat([own.reshape(-1, 1) for own in logits])

    def contact_logits(self, tokens: Tokens, found: Pass) -> list[Tensor]:
        """Return each protein's ``(n_i, n_i)`` logits of contacts, from a pass that kept its maps.

        A batch without a protein has one row, and with it one matrix of no residue.
        """
        if tokens.windowed:
            raise InputError(
                "contacts need a whole protein in one row, and this one is cut into windows. Raise "
                "featuriser.max_length."
            )
        if found.maps is None:
            raise ValueError("contacts need a pass with maps")
        sizes = (tokens.lengths - 2).tolist()
        # Residues only: the column of <cls> goes, and <eos>, wherever it stands, counts as padding.
        inside = torch.arange(1, tokens.rows.shape[1] - 1, device=tokens.rows.device) <= (tokens.lengths - 2)[:, None]
        between = (inside.unsqueeze(1) & inside.unsqueeze(2))[:, None]
        maps = torch.where(between, found.maps.flatten(1, 2)[..., 1:-1, 1:-1], 0.0)
        logits: Tensor = self.contact_head(maps.to(self.contact_head.regression.weight.dtype))
        return [logits[i, :n, :n] for i, n in enumerate(sizes)]


def _check(levels: Sequence[str], hp: dict[str, Any]) -> None:
    for level in levels:
        if level not in LEVELS:
            raise unknown_name("level of esm2", level, LEVELS)
    for name in ("layers", "width", "heads"):
        if hp[name] < 1:
            raise InputError(f"hyper-parameter {name} must be at least 1, got {hp[name]}")
    if not 0 <= hp["dropout"] < 1:
        raise InputError(f"hyper-parameter dropout must be at least 0 and less than 1, got {hp['dropout']}")
    if hp["width"] % (2 * hp["heads"]):
        raise InputError(
            f"hyper-parameter width {hp['width']} must be a multiple of twice the heads, {2 * hp['heads']}: each head "
            f"turns pairs of its components."
        )
