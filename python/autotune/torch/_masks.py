"""`sane_masks(model)`: attention masks that torch's fused kernels take, and none where none is needed. No kernel of ours is involved.

torch's fused attention refuses a mask whose last stride is not 1, and computes all scores in f32 then. transformers makes such masks: T5's position
bias always is one, and where code is compiled or captured in a graph it makes a mask of ones even for a model that was given none.

The model's attention implementation becomes a registered one of ours, which is transformers' own with other masks. It is a word in the model's
configuration, so torch.compile guards it, a deep copy and a pickle keep it, and no other model sees it. A saved configuration does not have it.

Other modules call torch.nn.functional.scaled_dot_product_attention, or torch.nn.MultiheadAttention does. Hooks of the model say when it runs, and a
function of ours in torch's place makes the masks of calls meanwhile contiguous.
"""

import contextlib
import functools
import importlib
import inspect
import re
import sys
import threading
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

import torch
from torch.overrides import has_torch_function

from ._guards import PLAIN, tracing_state

NAME = "autotune_sdpa"  # for implementations whose name contains "sdpa", transformers uses torch's function
_COMPARES = re.compile(r"""["']sdpa["']""")  # finds models that compare the name, which would treat ours differently
_CALLS = re.compile(r"\.scaled_dot_product_attention\(")
_PACKED = "position_ids"  # callers that pack several sequences into a row pass this argument

_MARK = "_autotune_masks"

# For each call of a model that is running: whether the caller passed position ids. Threads may take each other's entries, because
# entries only matter by their value.
_calls: List[bool] = []


def mark() -> None:
    """Marks a model with an attribute, so that reading the model from a pickle imports this module. Without it transformers
    does not know NAME.
    """


class SaneMasks:
    """The changes of sane_masks() to a model. `undo()` reverts them. `changed` and `left` list what was done, or why not, for each part, and
    `already` the parts that an earlier call has changed."""

    def __init__(self) -> None:
        self.changed: List[str] = []
        self.already: List[str] = []
        self.left: List[str] = []
        self._is_undone = False
        self._configs: List[Tuple[Any, str]] = []
        self._hooked: List[torch.nn.Module] = []
        self._watched: List[torch.nn.Module] = []

    def undo(self) -> None:
        """Gives the model its own masks back."""
        for config, word in self._configs:
            if config._attn_implementation_internal == NAME:
                config._attn_implementation_internal = word
        for module in self._hooked:
            _unhook(module)
        for module in self._watched:
            _remove_hooks(module, (_begin, _end))
            module.__dict__.pop(_MARK, None)
        self._is_undone = self._is_undone or bool(self)
        self._configs, self._hooked, self._watched, self.changed, self.already = [], [], [], [], []

    def __bool__(self) -> bool:
        return bool(self._configs or self._watched)

    def __str__(self) -> str:
        if self._is_undone:
            return "undone: the model makes its own masks again"
        lines = [f"sane masks in {each}" for each in self.changed] + [f"sane masks of an earlier call in {each}" for each in self.already]
        lines += [f"masks left alone in {each}" for each in self.left]
        return "\n".join(lines or ["no module that calls torch's attention function"])


def sane_masks(model: torch.nn.Module) -> SaneMasks:
    """Gives `model` attention masks that torch's fused attention takes. Call it before torch.compile and before a capture.

    - A mask or bias whose last stride is not 1 is made contiguous: torch's fused kernels refuse it only for its strides.
    - A model of transformers that is given no mask makes none in compiled and captured code either, where transformers makes one of ones.
    - Padding masks, packed sequences, windows and custom masks stay what they are.

    Results are those of torch on the same mask. Models of transformers that use another implementation than "sdpa", or that compare this word in
    their code, are left alone; the result says so. Of other modules, such as timm's and torch.nn.MultiheadAttention, every call of
    torch.nn.functional.scaled_dot_product_attention gets such a mask while `model` runs; a module that has imported this function by its own name
    keeps torch's. A second call changes nothing more.
    """
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"sane_masks() takes a torch.nn.Module, not {type(model).__name__}; of a pipeline give it each of the models")
    made = SaneMasks()
    models = [each for each in model.modules() if _is_transformers(each)]
    if models:
        _register()
    for each in models:
        _adapt(each, made)
    _watch(model, models, made)
    return made


def _is_transformers(module: torch.nn.Module) -> bool:
    transformers = sys.modules.get("transformers.modeling_utils")
    return transformers is not None and isinstance(module, transformers.PreTrainedModel)


def _adapt(model: torch.nn.Module, made: SaneMasks) -> None:
    name = type(model).__name__
    config: Any = model.config
    word = config._attn_implementation
    if word == NAME:
        if all(each is not config for each, _ in made._configs):  # else an outer model shares it, which this call has changed or listed
            made.already.append(name)
        made._configs.append((config, "sdpa"))
        _hook(model, made)
        return
    if word != "sdpa":
        made.left.append(f"{name}: its attention is {word!r}")
    elif _COMPARES.search(_source(type(model))):
        made.left.append(f"{name}: its code compares the name of its attention")
    else:
        config._attn_implementation_internal = NAME
        made._configs.append((config, word))
        made.changed.append(name)
        _hook(model, made)


def _source(kind: type) -> str:
    try:
        return inspect.getsource(sys.modules[kind.__module__])
    except (OSError, TypeError, KeyError):
        return "'sdpa'"  # the value that it is compared with is unknown


def _hook(model: torch.nn.Module, made: SaneMasks) -> None:
    """Tells the mask functions of each call of a model with position ids. Otherwise they see only the ids that the model makes
    itself.
    """
    made._hooked.append(model)
    model.__dict__[_MARK] = mark
    if _PACKED not in inspect.signature(type(model).forward).parameters:
        return
    if _enter not in model._forward_pre_hooks.values():
        model.register_forward_pre_hook(_enter, with_kwargs=True)
        model.register_forward_hook(_leave, with_kwargs=True, always_call=True)


def _unhook(model: torch.nn.Module) -> None:
    _remove_hooks(model, (_enter, _leave))
    model.__dict__.pop(_MARK, None)


def _remove_hooks(model: torch.nn.Module, own: Tuple[Callable[..., None], Callable[..., None]]) -> None:
    flags = model._forward_pre_hooks_with_kwargs, model._forward_hooks_with_kwargs, model._forward_hooks_always_called
    for hooks in (model._forward_pre_hooks, model._forward_hooks):
        for key in [key for key, hook in hooks.items() if hook in own]:
            hooks.pop(key)
            for of_flag in flags:
                of_flag.pop(key, None)


def _gives_positions(model: torch.nn.Module, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> bool:
    if kwargs.get(_PACKED) is not None:
        return True
    if len(args) < 2:  # the first argument is the one that the model reads
        return False
    place = list(inspect.signature(type(model).forward).parameters).index(_PACKED) - 1
    return len(args) > place and args[place] is not None


def _enter(model: torch.nn.Module, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> None:
    _calls.append(_gives_positions(model, args, kwargs))


def _leave(model: torch.nn.Module, args: Tuple[Any, ...], kwargs: Dict[str, Any], output: Any) -> None:
    given = _gives_positions(model, args, kwargs)
    if given in _calls:
        _calls.remove(given)


def contiguous_rows(mask: Optional[torch.Tensor]) -> Optional[torch.Tensor]:
    """Returns the mask with the same values in a form that torch's fused attention accepts."""
    if mask is None or mask.dim() == 0 or mask.stride(-1) == 1 or mask.shape[-1] == 1:
        return mask
    return mask.contiguous()


# Modules other than those of transformers. `_running` has an entry for each running call of a watched model; threads may take
# each other's.
_running: List[bool] = []
_torchs = torch.nn.functional.scaled_dot_product_attention


def _scaled_dot_product_attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attn_mask: Optional[torch.Tensor] = None, *arguments: Any, **options: Any
) -> Any:
    if has_torch_function((query, key, value, attn_mask)):  # a class of tensors or a mode that decides for itself
        if torch.compiler.is_compiling():
            return _compiled_by_class(query, key, value, attn_mask, *arguments, **options)
        with _torchs_in_place():
            return _torchs(query, key, value, attn_mask, *arguments, **options)
    if _running and isinstance(attn_mask, torch.Tensor) and attn_mask.layout is torch.strided and not attn_mask.is_nested:
        attn_mask = contiguous_rows(attn_mask)
    return _torchs(query, key, value, attn_mask, *arguments, **options)


functools.update_wrapper(_scaled_dot_product_attention, _torchs, assigned=("__doc__",), updated=())


def _compiled_by_class(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attn_mask: Any, *arguments: Any, **options: Any) -> Any:
    """A mask's class compares with our function, which torch.compile sees under torch's name."""
    kind = type(attn_mask)
    if kind in PLAIN or not isinstance(attn_mask, torch.Tensor):
        return _torchs(query, key, value, attn_mask, *arguments, **options)
    return kind.__torch_function__(_scaled_dot_product_attention, (kind,), (query, key, value, attn_mask, *arguments), options)


# How many calls need torch's own function under its name, because a class of tensors compares the two, as torch's CausalBias does.
_needing_torchs = 0
_place_lock = threading.Lock()


@contextlib.contextmanager
def _torchs_in_place() -> Iterator[None]:
    _count_needing(1)
    try:
        yield
    finally:
        _count_needing(-1)


def _count_needing(change: int) -> None:
    global _needing_torchs
    with _place_lock:
        _needing_torchs += change
        ours, functional = _scaled_dot_product_attention, torch.nn.functional
        if functional.scaled_dot_product_attention in (ours, _torchs):  # else another library has replaced it since
            functional.scaled_dot_product_attention = _torchs if _needing_torchs else ours


def _watch(model: torch.nn.Module, models: List[torch.nn.Module], made: SaneMasks) -> None:
    """If the model has modules that call torch's function by its name, replaces the function while the model runs."""
    of_transformers = {id(module) for each in models for module in each.modules()}
    callers = sorted({type(each).__name__ for each in model.modules() if id(each) not in of_transformers and _calls_torchs(type(each))})
    if not callers:
        return
    calls = f"calls of scaled_dot_product_attention by {', '.join(callers)}"
    if isinstance(model, torch.nn.TransformerEncoderLayer):
        made.left.append(f"{calls}: this layer has a faster way of its own, which hooks would switch off")
        return
    if not _take_torchs_place():
        made.left.append(f"{calls}: another library has replaced torch.nn.functional.scaled_dot_product_attention")
        return
    made._watched.append(model)
    model.__dict__[_MARK] = mark
    if _begin not in model._forward_pre_hooks.values():
        model.register_forward_pre_hook(_begin)
        model.register_forward_hook(_end, always_call=True)
        made.changed.append(calls)
    else:
        made.already.append(calls)


@functools.lru_cache(maxsize=None)
def _calls_torchs(kind: type) -> bool:
    is_torchs_own = kind.__module__.startswith("torch.")
    return issubclass(kind, torch.nn.MultiheadAttention) or (not is_torchs_own and _CALLS.search(_source(kind)) is not None)


_is_known_to_scripts = False


def _take_torchs_place() -> bool:
    """Puts our function in the place of torch's; false where another library has put its own there."""
    global _is_known_to_scripts
    with _place_lock:
        if torch.nn.functional.scaled_dot_product_attention is _torchs and not _needing_torchs:
            torch.nn.functional.scaled_dot_product_attention = _scaled_dot_product_attention
        is_ours = torch.nn.functional.scaled_dot_product_attention in (_scaled_dot_product_attention, _torchs)
    if is_ours and not _is_known_to_scripts:
        _is_known_to_scripts = True
        with contextlib.suppress(Exception):  # torch.jit.script makes torch's operator of it, and compiles none of our hooks
            importlib.import_module("torch.jit._builtins")._register_builtin(_scaled_dot_product_attention, "aten::scaled_dot_product_attention")
            recursive: Any = importlib.import_module("torch.jit._recursive")
            recursive.create_script_module = _without_hooks(recursive.create_script_module)
    return is_ours


def _without_hooks(theirs: Callable[..., Any]) -> Callable[..., Any]:
    """torch.jit.script's function, for modules whose hooks of ours are set aside meanwhile: it would compile them, and cannot."""

    def create(nn_module: torch.nn.Module, *arguments: Any, **options: Any) -> Any:
        aside = []
        for module in nn_module.modules():
            for hooks in (module._forward_pre_hooks, module._forward_hooks):
                if any(hook in _HOOKS for hook in hooks.values()):
                    aside.append((hooks, list(hooks.items())))
        try:
            for hooks, items in aside:
                for key, hook in items:
                    if hook in _HOOKS:
                        hooks.pop(key, None)
            return theirs(nn_module, *arguments, **options)
        finally:
            for hooks, items in aside:
                hooks.clear()
                hooks.update(items)

    return create


def _begin(model: torch.nn.Module, args: Tuple[Any, ...]) -> None:
    if not torch.compiler.is_compiling() and torch.nn.functional.scaled_dot_product_attention is _torchs:
        _take_torchs_place()  # in a process that has read the model from a pickle
    _running.append(True)


def _end(model: torch.nn.Module, args: Tuple[Any, ...], output: Any) -> None:
    if _running:
        _running.pop()


_HOOKS = (_enter, _leave, _begin, _end)

_registered = False


def _register() -> None:
    """Adds our implementation to transformers' registries."""
    global _registered
    if _registered:
        return
    modules: Any = (importlib.import_module(f"transformers.{name}") for name in ("masking_utils", "modeling_utils"))
    masking_utils, modeling_utils = modules
    modeling_utils.AttentionInterface.register(NAME, _attention(modeling_utils.ALL_ATTENTION_FUNCTIONS["sdpa"]))
    masking_utils.AttentionMaskInterface.register(NAME, _mask(masking_utils.sdpa_mask))
    # Only this function has the configuration when transformers looks for packed sequences.
    masking_utils._preprocess_mask_arguments = _unpacked(masking_utils._preprocess_mask_arguments)
    _registered = True


def _attention(theirs: Callable[..., Any]) -> Callable[..., Any]:
    def attend(
        module: torch.nn.Module, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attention_mask: Optional[torch.Tensor], **options: Any
    ) -> Any:
        if options.get("position_bias") is not None:
            options["position_bias"] = contiguous_rows(options["position_bias"])
        return theirs(module, query, key, value, contiguous_rows(attention_mask), **options)

    return attend


def _mask(theirs: Callable[..., Any]) -> Callable[..., Any]:
    def make(*arguments: Any, **options: Any) -> Any:
        if not arguments and _needs_none(**options):
            return None
        return contiguous_rows(theirs(*arguments, **options))

    return make


def _needs_none(
    q_length: int,
    kv_length: int,
    attention_mask: Optional[torch.Tensor] = None,
    local_size: Optional[int] = None,
    allow_is_causal_skip: bool = True,
    allow_is_bidirectional_skip: bool = False,
    **_: Any,
) -> bool:
    """Whether attention gives the same result without a mask, causal or not as the layer says. transformers can decide this
    too, but not in code that is compiled or captured, because an exported program may run with other lengths. Here
    torch.compile guards the lengths, and a graph has fixed lengths.
    """
    # torch.compiler.is_exporting() is always true in code that torch.compile traces.
    if attention_mask is not None or getattr(torch.compiler, "_is_exporting_flag", True) or tracing_state() is not None:
        return False
    if local_size is not None and kv_length >= local_size:
        return False
    return allow_is_bidirectional_skip or (allow_is_causal_skip and (q_length == 1 or kv_length == q_length))


def _unpacked(theirs: Callable[..., Any]) -> Callable[..., Any]:
    def preprocess(
        config: Any, inputs_embeds: Any, attention_mask: Any, past_key_values: Any, position_ids: Any, *more: Any, **options: Any
    ) -> Any:
        if config._attn_implementation == NAME and _calls and True not in _calls:
            position_ids = None  # the model made the ids itself, so there is one sequence per row
        return theirs(config, inputs_embeds, attention_mask, past_key_values, position_ids, *more, **options)

    return preprocess


if "transformers" in sys.modules:  # a pickled model needs our implementation as soon as it is read
    try:
        _register()
    except Exception:  # this version of transformers has no such registries
        pass
