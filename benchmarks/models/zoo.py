"""The models of the benchmark: public architectures built from their configs with random weights. Nothing is downloaded."""

import dataclasses
from typing import Any, Callable, Dict, List, Tuple

import torch

Inputs = Dict[str, torch.Tensor]


@dataclasses.dataclass(frozen=True)
class Built:
    """A model in bf16, its inputs, and the function that calls it."""

    module: torch.nn.Module
    inputs: Inputs
    # Calls the module, or what torch.compile made of it, and returns the output that is compared
    call: Callable[[Callable[..., Any], Inputs], torch.Tensor]


@dataclasses.dataclass(frozen=True)
class Entry:
    build: Callable[..., Built]
    full: Dict[str, Any]
    tiny: Dict[str, Any]  # replaces entries of `full`, so that a CPU runs the model in a second
    trains: bool = False
    is_variant: bool = False  # a second form of a model: not counted among the fifteen
    error_batches: int = 1  # over which the error is a root mean square. Where a router chooses, a few changed choices decide the error of one batch


def build(name: str, device: torch.device, tiny: bool, layers: int = 0) -> Built:
    entry = MODELS[name]
    sizes = {**entry.full, **(entry.tiny if tiny else {})}
    if layers:
        sizes["layers"] = layers
    torch.manual_seed(0)
    return entry.build(device, **sizes)


def _transformer(device: torch.device, architecture: str, config: str, **options: Any) -> torch.nn.Module:
    import transformers

    made = getattr(transformers, config)(**options)
    with torch.device(device):
        return getattr(transformers, architecture)._from_config(made, dtype=torch.bfloat16).eval()


def _ids(device: torch.device, vocabulary: int, rows: int, length: int) -> torch.Tensor:
    return torch.randint(5, vocabulary, (rows, length), device=device)


def _first(output: Any) -> torch.Tensor:
    for name in ("logits", "last_hidden_state"):
        found = getattr(output, name, None)
        if found is not None:
            return found
    return output[0] if isinstance(output, (tuple, list)) else output


def _by_name(function: Callable[..., Any], inputs: Inputs) -> torch.Tensor:
    return _first(function(**inputs))


def _without_cache(function: Callable[..., Any], inputs: Inputs) -> torch.Tensor:
    return _first(function(**inputs, use_cache=False))


def _of_image(device: torch.device, name: str, batch: int, image: int, **options: Any) -> Built:
    import timm

    with torch.device(device):
        module = timm.create_model(name, pretrained=False, **options).to(torch.bfloat16).eval()
    pixels = torch.randn(batch, 3, image, image, device=device, dtype=torch.bfloat16)
    return Built(module, {"x": pixels}, lambda function, inputs: function(inputs["x"]))


def _vit(device: torch.device, timm_name: str, batch: int, image: int, layers: int, width: int, heads: int, patch: int) -> Built:
    return _of_image(device, timm_name, batch, image, img_size=image, depth=layers, embed_dim=width, num_heads=heads, patch_size=patch)


def _bert(device: torch.device, rows: int, length: int, layers: int, width: int, heads: int, inner: int, vocabulary: int, padded: bool) -> Built:
    module = _transformer(
        device, "BertModel", "BertConfig",
        hidden_size=width, num_hidden_layers=layers, num_attention_heads=heads, intermediate_size=inner, vocab_size=vocabulary,
    )
    inputs = {"input_ids": _ids(device, vocabulary, rows, length)}
    if padded:  # a quarter of the tokens are padding on average
        lengths = torch.linspace(length // 2, length, rows, device=device).long()
        inputs["attention_mask"] = (torch.arange(length, device=device)[None, :] < lengths[:, None]).long()
    return Built(module, inputs, _by_name)


def _modernbert(device: torch.device, rows: int, length: int, layers: int, width: int, heads: int, inner: int, vocabulary: int) -> Built:
    module = _transformer(
        device, "ModernBertModel", "ModernBertConfig",
        hidden_size=width, num_hidden_layers=layers, num_attention_heads=heads, intermediate_size=inner, vocab_size=vocabulary,
        pad_token_id=0, eos_token_id=1, bos_token_id=1, cls_token_id=1, sep_token_id=1, reference_compile=False,
    )
    return Built(module, {"input_ids": _ids(device, vocabulary, rows, length)}, _by_name)


def _gpt2(device: torch.device, rows: int, length: int, layers: int, width: int, heads: int, vocabulary: int) -> Built:
    module = _transformer(
        device, "GPT2LMHeadModel", "GPT2Config",
        n_embd=width, n_layer=layers, n_head=heads, vocab_size=vocabulary, n_positions=max(length, 16), bos_token_id=1, eos_token_id=1,
    )
    return Built(module, {"input_ids": _ids(device, vocabulary, rows, length)}, _without_cache)


def _decoder(
    device: torch.device, architecture: str, config: str, rows: int, length: int, layers: int, width: int, heads: int, key_heads: int,
    inner: int, vocabulary: int, **options: Any,
) -> Built:
    module = _transformer(
        device, architecture, config,
        hidden_size=width, intermediate_size=inner, num_hidden_layers=layers, num_attention_heads=heads, num_key_value_heads=key_heads,
        vocab_size=vocabulary, pad_token_id=0, bos_token_id=1, eos_token_id=1, **options,
    )
    return Built(module, {"input_ids": _ids(device, vocabulary, rows, length)}, _without_cache)


def _decode(device: torch.device, rows: int, past: int, **options: Any) -> Built:
    """Decodes one more token for each of `rows` sequences, after `past` tokens in a static cache."""
    import transformers

    built = _decoder(device, "LlamaForCausalLM", "LlamaConfig", rows=rows, length=past, **options)
    caches: Dict[int, Any] = {}  # by model, because each row of the benchmark has its own

    def call(function: Callable[..., Any], inputs: Inputs) -> torch.Tensor:
        module = getattr(function, "_orig_mod", function)
        cache = caches.get(id(module))
        if cache is None:
            cache = caches[id(module)] = transformers.StaticCache(module.config, max_cache_len=past + 8)
            with torch.no_grad():
                module(input_ids=inputs["past"], past_key_values=cache, use_cache=True)
        for layer in cache.layers:
            layer.cumulative_length.fill_(past)  # each call computes the same token
        return _first(function(input_ids=inputs["input_ids"], past_key_values=cache, use_cache=True))

    past_ids = built.inputs["input_ids"]
    return Built(built.module, {"past": past_ids, "input_ids": past_ids[:, :1].clone()}, call)


def _whisper(device: torch.device, rows: int, frames: int, layers: int, width: int, heads: int, inner: int, mels: int) -> Built:
    import transformers
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    config = transformers.WhisperConfig(
        d_model=width, encoder_layers=layers, encoder_attention_heads=heads, encoder_ffn_dim=inner, num_mel_bins=mels,
        max_source_positions=frames // 2,
    )
    with torch.device(device):
        module = WhisperEncoder._from_config(config, dtype=torch.bfloat16).eval()
    sound = torch.randn(rows, mels, frames, device=device, dtype=torch.bfloat16)
    return Built(module, {"input_features": sound}, _by_name)


def _t5(device: torch.device, rows: int, length: int, layers: int, width: int, heads: int, size: int, inner: int, vocabulary: int, kind: str) -> Built:
    module = _transformer(
        device, "T5EncoderModel", "T5Config",
        d_model=width, d_kv=size, d_ff=inner, num_layers=layers, num_heads=heads, vocab_size=vocabulary, feed_forward_proj=kind,
    )
    return Built(module, {"input_ids": _ids(device, vocabulary, rows, length)}, _by_name)


def _clip_text(device: torch.device, rows: int, length: int, layers: int, width: int, heads: int, inner: int, vocabulary: int) -> Built:
    module = _transformer(
        device, "CLIPTextModel", "CLIPTextConfig",
        hidden_size=width, intermediate_size=inner, num_hidden_layers=layers, num_attention_heads=heads, vocab_size=vocabulary,
        max_position_embeddings=length, bos_token_id=0, eos_token_id=1, pad_token_id=1,
    )
    return Built(module, {"input_ids": _ids(device, vocabulary, rows, length)}, _by_name)


def _clip_vision(device: torch.device, rows: int, image: int, patch: int, layers: int, width: int, heads: int, inner: int) -> Built:
    module = _transformer(
        device, "CLIPVisionModel", "CLIPVisionConfig",
        hidden_size=width, intermediate_size=inner, num_hidden_layers=layers, num_attention_heads=heads, image_size=image, patch_size=patch,
    )
    return Built(module, {"pixel_values": torch.randn(rows, 3, image, image, device=device, dtype=torch.bfloat16)}, _by_name)


class _Stream(torch.nn.Module):
    """The modules that text and image each have for themselves in a block like FLUX's."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.modulation = torch.nn.Linear(width, 6 * width)
        self.norm1 = torch.nn.LayerNorm(width, elementwise_affine=False, eps=1e-6)
        self.norm2 = torch.nn.LayerNorm(width, elementwise_affine=False, eps=1e-6)
        self.qkv = torch.nn.Linear(width, 3 * width)
        self.q_norm, self.k_norm = (torch.nn.RMSNorm(width // heads, eps=1e-6) for _ in range(2))
        self.out = torch.nn.Linear(width, width)
        self.mlp = torch.nn.Sequential(torch.nn.Linear(width, 4 * width), torch.nn.GELU(approximate="tanh"), torch.nn.Linear(4 * width, width))

    def into(self, x: torch.Tensor, vector: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor, torch.Tensor, List[torch.Tensor]]:
        shifts = list(self.modulation(torch.nn.functional.silu(vector))[:, None].chunk(6, -1))
        q, k, v = self.qkv(self.norm1(x) * (1 + shifts[1]) + shifts[0]).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        return self.q_norm(q), self.k_norm(k), v, shifts

    def out_of(self, x: torch.Tensor, attended: torch.Tensor, shifts: List[torch.Tensor]) -> torch.Tensor:
        x = x + shifts[2] * self.out(attended)
        return x + shifts[5] * self.mlp(self.norm2(x) * (1 + shifts[4]) + shifts[3])


class DoubleStreamBlock(torch.nn.Module):
    """A block of a diffusion transformer like FLUX's: text and image have separate weights and attend together, with RoPE."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.image, self.text = _Stream(width, heads), _Stream(width, heads)

    def forward(self, image: torch.Tensor, text: torch.Tensor, vector: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        image_q, image_k, image_v, image_shifts = self.image.into(image, vector)
        text_q, text_k, text_v, text_shifts = self.text.into(text, vector)
        q, k, v = (torch.cat(pair, 2) for pair in ((text_q, image_q), (text_k, image_k), (text_v, image_v)))
        q, k = (_rotated(each, cos, sin) for each in (q, k))
        attended = torch.nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        text = self.text.out_of(text, attended[:, : text.shape[1]], text_shifts)
        image = self.image.out_of(image, attended[:, text.shape[1] :], image_shifts)
        return torch.cat([text, image], 1)


def _rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    even, odd = x.unflatten(-1, (-1, 2)).unbind(-1)
    return torch.stack([even * cos - odd * sin, even * sin + odd * cos], -1).flatten(-2)


def _flux(device: torch.device, rows: int, text: int, image: int, width: int, heads: int) -> Built:
    with torch.device(device):
        module = DoubleStreamBlock(width, heads).to(torch.bfloat16).eval()
    size = width // heads
    angles = torch.arange(text + image, device=device)[:, None] / 10000 ** (torch.arange(0, size, 2, device=device) / size)
    inputs = {
        "image": torch.randn(rows, image, width, device=device),
        "text": torch.randn(rows, text, width, device=device),
        "vector": torch.randn(rows, width, device=device),
        "cos": angles.cos(),
        "sin": angles.sin(),
    }
    return Built(module, {name: each.to(torch.bfloat16) for name, each in inputs.items()}, _by_name)


_TINY_VIT = dict(batch=2, image=28, layers=1, width=64, heads=2, patch=14)
_TINY_TEXT = dict(rows=2, length=24, layers=1, width=64, heads=2, vocabulary=128)
_TINY_DECODER = dict(_TINY_TEXT, key_heads=1, inner=128)
_LLAMA = dict(
    architecture="LlamaForCausalLM", config="LlamaConfig",
    rows=2, length=1024, layers=2, width=4096, heads=32, key_heads=8, inner=14336, vocabulary=32000,
)
_DECODE = {**{name: each for name, each in _LLAMA.items() if name not in ("architecture", "config", "rows", "length")}, "past": 1024}
_TINY_DECODE = {**{name: each for name, each in _TINY_DECODER.items() if name not in ("rows", "length")}, "past": 16}
_BERT = dict(rows=32, length=384, layers=6, width=1024, heads=16, inner=4096, vocabulary=30522, padded=False)
_T5 = dict(rows=8, length=512, layers=6, width=1024, heads=16, size=64, inner=4096, vocabulary=32128, kind="relu")
_TINY_T5 = dict(_TINY_TEXT, size=32, inner=128)
_GPT2 = dict(rows=4, length=1024, layers=6, width=1024, heads=16, vocabulary=50257)

MODELS: Dict[str, Entry] = {
    "vit_large": Entry(_vit, dict(timm_name="vit_large_patch16_224", batch=32, image=224, layers=24, width=1024, heads=16, patch=16), _TINY_VIT, trains=True),
    "dinov2": Entry(_vit, dict(timm_name="vit_base_patch14_dinov2", batch=16, image=518, layers=12, width=768, heads=12, patch=14), _TINY_VIT),
    "bert_large": Entry(_bert, _BERT, dict(_TINY_TEXT, inner=128), trains=True),
    "modernbert": Entry(
        _modernbert, dict(rows=16, length=1024, layers=6, width=768, heads=12, inner=1152, vocabulary=50368), dict(_TINY_TEXT, layers=2, inner=96)
    ),
    "gpt2_medium": Entry(_gpt2, _GPT2, dict(_TINY_TEXT, vocabulary=131)),
    "llama3_8b": Entry(_decoder, _LLAMA, _TINY_DECODER, trains=True),
    "qwen2_7b": Entry(
        _decoder,
        dict(architecture="Qwen2ForCausalLM", config="Qwen2Config", rows=1, length=2000, layers=2, width=3584, heads=28, key_heads=4, inner=18944, vocabulary=32000),
        _TINY_DECODER,
    ),
    "gemma2_9b": Entry(
        _decoder,
        dict(architecture="Gemma2ForCausalLM", config="Gemma2Config", rows=2, length=1024, layers=2, width=3584, heads=16, key_heads=8, inner=14336, vocabulary=32000, head_dim=256),
        dict(_TINY_DECODER, layers=2, head_dim=32),
    ),
    "phi3_mini": Entry(
        _decoder,
        dict(architecture="Phi3ForCausalLM", config="Phi3Config", rows=2, length=1024, layers=2, width=3072, heads=32, key_heads=32, inner=8192, vocabulary=32064),
        dict(_TINY_DECODER, key_heads=2),
    ),
    "mistral_7b": Entry(
        _decoder,
        dict(architecture="MistralForCausalLM", config="MistralConfig", rows=1, length=8192, layers=2, width=4096, heads=32, key_heads=8, inner=14336, vocabulary=32000, sliding_window=4096),
        dict(_TINY_DECODER, sliding_window=8),
    ),
    "mixtral": Entry(
        _decoder,
        dict(architecture="MixtralForCausalLM", config="MixtralConfig", rows=2, length=1024, layers=1, width=4096, heads=32, key_heads=8, inner=14336, vocabulary=32000),
        _TINY_DECODER,
        error_batches=12,
    ),
    "whisper_large": Entry(
        _whisper, dict(rows=4, frames=3000, layers=6, width=1280, heads=20, inner=5120, mels=128), dict(rows=2, frames=48, layers=1, width=64, heads=2, inner=128, mels=16)
    ),
    "t5_large": Entry(_t5, _T5, _TINY_T5),
    "clip_large": Entry(
        _clip_vision, dict(rows=32, image=224, patch=14, layers=24, width=1024, heads=16, inner=4096), dict(rows=2, image=28, patch=14, layers=1, width=64, heads=2, inner=128)
    ),
    "flux_block": Entry(_flux, dict(rows=1, text=512, image=4096, width=3072, heads=24), dict(rows=2, text=8, image=16, width=64, heads=2)),
    # Second forms of models above.
    "bert_large_padded": Entry(_bert, dict(_BERT, padded=True), dict(_TINY_TEXT, inner=128), is_variant=True),
    "gpt2_medium_24": Entry(_gpt2, dict(_GPT2, layers=24), dict(_TINY_TEXT, vocabulary=131), is_variant=True),
    "llama3_decode_1": Entry(_decode, dict(_DECODE, rows=1), _TINY_DECODE, is_variant=True),
    "llama3_decode_16": Entry(_decode, dict(_DECODE, rows=16), dict(_TINY_DECODE, rows=2), is_variant=True),
    "qwen3_8b": Entry(
        _decoder,
        dict(architecture="Qwen3ForCausalLM", config="Qwen3Config", rows=1, length=2000, layers=2, width=4096, heads=32, key_heads=8, inner=12288, vocabulary=32000, head_dim=128),
        dict(_TINY_DECODER, head_dim=32),
        is_variant=True,
    ),
    "t5_v1_1_large": Entry(_t5, dict(_T5, kind="gated-gelu", inner=2816), _TINY_T5, is_variant=True),
    "clip_large_text": Entry(
        _clip_text, dict(rows=64, length=77, layers=12, width=768, heads=12, inner=3072, vocabulary=49408), dict(_TINY_TEXT, inner=128), is_variant=True
    ),
}
FIFTEEN = [name for name, entry in MODELS.items() if not entry.is_variant]
