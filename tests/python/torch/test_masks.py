"""sane_masks() on models of transformers, on the CPU: which masks reach torch's attention, and that results are the same bits.

Without transformers its tests are skipped.
"""

import copy
import pickle
import subprocess
import sys
import tempfile
import threading
import unittest
import warnings
from unittest import mock

import torch
import torch.nn.functional as F
from torch.nn.attention.bias import causal_lower_right

import autotune
import autotune.torch as at
from autotune.torch import _masks

try:
    import transformers
    from transformers.utils import import_utils
except ImportError:
    transformers = None

BATCH, LENGTH = 2, 24


def tiny(name, **options):
    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")
    common = dict(vocab_size=64, pad_token_id=0, bos_token_id=1, eos_token_id=1)
    if name == "Bert":
        made = config(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, **common)
        return transformers.BertModel(made).eval()
    if name == "T5":
        made = config(d_model=32, d_kv=16, d_ff=64, num_layers=2, num_heads=2, **common)
        return transformers.T5EncoderModel(made).eval()
    if name == "GPT2":
        made = config(n_embd=32, n_layer=2, n_head=2, n_positions=64, vocab_size=64, bos_token_id=1, eos_token_id=1)
        return transformers.GPT2LMHeadModel(made).eval()
    made = config(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1, intermediate_size=64, **common, **options
    )
    return getattr(transformers, f"{name}ForCausalLM")(made).eval()


def ids():
    return torch.randint(2, 64, (BATCH, LENGTH), generator=torch.Generator().manual_seed(1))


def output(model, **inputs):
    with torch.no_grad():
        if "LM" in type(getattr(model, "_orig_mod", model)).__name__:
            inputs["use_cache"] = False  # if there is a cache, transformers does not look for packed sequences
        return model(input_ids=ids(), **inputs)[0]


def seen_masks(call):
    """Collects the masks that reach torch's attention."""
    found, original = [], F.scaled_dot_product_attention

    def listening(query, key, value, attn_mask=None, *more, **options):
        found.append(attn_mask)
        return original(query, key, value, attn_mask, *more, **options)

    with mock.patch.object(F, "scaled_dot_product_attention", listening):
        result = call()
    return found, result


def reaching_masks(call):
    """Collects the masks that reach torch's own function, below the function of sane_masks()."""
    found, original = [], _masks._torchs

    def listening(query, key, value, attn_mask=None, *more, **options):
        found.append(attn_mask)
        return original(query, key, value, attn_mask, *more, **options)

    with mock.patch.object(_masks, "_torchs", listening):
        result = call()
    return found, result


def compiled(model, masks):
    """The model, compiled as a whole; `masks` gets the mask of each call of attention in the graph."""

    def backend(graph, inputs):
        for node in graph.graph.nodes:
            if node.target is _masks._torchs:
                given = node.kwargs.get("attn_mask", node.args[3] if len(node.args) > 3 else None)
                masks.append(None if given is None else given.meta["example_value"])
        return graph.forward

    torch._dynamo.reset()
    return torch.compile(model, backend=backend, fullgraph=True)


def captures():
    """Makes transformers believe that the stream is being captured."""
    return mock.patch.object(import_utils, "is_cuda_stream_capturing", lambda: True)


def is_sane(mask):
    return mask is None or mask.stride(-1) == 1


@unittest.skipIf(transformers is None, "needs transformers")
class SaneMasks(unittest.TestCase):
    def check(self, model, wants_mask, **inputs):
        """Checks that results have the same bits with and without it, in eager code, in a capture and compiled; and that masks
        exist only where expected, with contiguous rows.
        """
        wanted = output(model, **inputs)
        masks = at.sane_masks(model)
        self.assertTrue(masks, masks)
        for name, run in (("eager", lambda: output(model, **inputs)), ("captured", lambda: self.captured(model, inputs))):
            seen, found = seen_masks(run)
            self.assertTrue(torch.equal(found, wanted), name)
            self.assertTrue(seen, name)
            self.assertEqual([mask is not None for mask in seen], [wants_mask] * len(seen), name)
            self.assertTrue(all(map(is_sane, seen)), name)
        seen = []
        found = output(compiled(model, seen), **inputs)
        self.assertTrue(torch.equal(found, wanted), "compiled")
        self.assertEqual([mask is not None for mask in seen], [wants_mask] * 2)
        self.assertTrue(all(map(is_sane, seen)))
        masks.undo()
        self.assertEqual(model.config._attn_implementation, "sdpa")
        self.assertTrue(torch.equal(output(model, **inputs), wanted))

    def captured(self, model, inputs):
        with captures():
            return output(model, **inputs)

    def test_bert_has_no_mask_where_none_is_given(self):
        self.check(tiny("Bert"), False)

    def test_a_padding_mask_stays(self):
        padding = (torch.arange(LENGTH)[None] < torch.tensor([LENGTH, LENGTH // 2])[:, None]).long()
        self.check(tiny("Bert"), True, attention_mask=padding)

    def test_the_bias_of_t5_gets_contiguous_rows(self):
        model = tiny("T5")
        before, _ = seen_masks(lambda: output(model))
        self.assertFalse(all(map(is_sane, before)), "transformers makes it so by itself now: this part is not needed any more")
        self.check(model, True)

    def test_decoders_have_no_mask(self):
        for name in ("Llama", "GPT2", "Qwen2"):
            with self.subTest(name):
                self.check(tiny(name), False)

    def test_a_window_stays(self):
        self.check(tiny("Mistral", sliding_window=8), True)

    def test_packed_sequences_stay_apart(self):
        model = tiny("Llama")
        packed = torch.arange(LENGTH // 2).repeat(2)[None].expand(BATCH, -1).contiguous()
        (seen, wanted), alone = seen_masks(lambda: output(model, position_ids=packed)), output(model)
        self.assertNotIn(None, seen)
        masks = at.sane_masks(model)
        for run in (lambda: output(model, position_ids=packed), lambda: self.captured(model, {"position_ids": packed})):
            self.assertTrue(torch.equal(run(), wanted))
        seen = []
        code = compiled(model, seen)
        self.assertTrue(torch.equal(output(code, position_ids=packed), wanted))
        self.assertTrue(torch.equal(output(code), alone))
        self.assertEqual([mask is not None for mask in seen], [True, True, False, False])
        self.assertEqual(_masks._calls, [])
        with captures():  # calls the inner model directly, without the outer one
            inner = model.model(input_ids=ids(), position_ids=packed, use_cache=False)[0]
        masks.undo()
        self.assertTrue(torch.equal(inner, model.model(input_ids=ids(), position_ids=packed, use_cache=False)[0]))

    def test_packed_and_other_calls_in_many_threads(self):
        model = tiny("Llama")
        packed = torch.arange(LENGTH // 2).repeat(2)[None].expand(BATCH, -1).contiguous()
        wanted = {True: output(model, position_ids=packed), False: output(model)}
        at.sane_masks(model)
        wrong = []

        def work(index):
            is_packed = index % 2 == 0
            for _ in range(4):
                found = output(model, position_ids=packed) if is_packed else output(model)
                if not torch.equal(found, wanted[is_packed]):
                    wrong.append(index)

        with captures():
            threads = [threading.Thread(target=work, args=(i,)) for i in range(16)]
            for each in threads:
                each.start()
            for each in threads:
                each.join()
        self.assertEqual(wrong, [])
        self.assertEqual(_masks._calls, [])

    def test_a_call_that_fails_leaves_nothing_behind(self):
        model = tiny("Llama")
        at.sane_masks(model)
        with self.assertRaises(Exception):
            model(input_ids=torch.full((1, 4), 10**6), position_ids=torch.arange(4)[None])
        self.assertEqual(_masks._calls, [])

    def test_a_second_call_changes_nothing_and_can_be_undone(self):
        model = tiny("Llama")
        self.assertEqual(str(at.sane_masks(model)), "sane masks in LlamaForCausalLM")
        hooks = len(model.model._forward_pre_hooks)
        again = at.sane_masks(model)
        self.assertEqual(str(again), "sane masks of an earlier call in LlamaForCausalLM")
        self.assertEqual(len(model.model._forward_pre_hooks), hooks)
        again.undo()
        self.assertEqual(model.config._attn_implementation, "sdpa")
        self.assertEqual((len(model.model._forward_pre_hooks), len(model.model._forward_hooks)), (0, 0))
        self.assertNotIn(_masks._MARK, model.__dict__)

    def test_other_models_are_left_alone(self):
        one, other = tiny("Bert"), tiny("Bert")
        at.sane_masks(one)
        self.assertEqual(other.config._attn_implementation, "sdpa")
        eager = tiny("Bert")
        eager.set_attn_implementation("eager")
        masks = at.sane_masks(eager)
        self.assertFalse(masks)
        self.assertIn("its attention is 'eager'", str(masks))
        self.assertFalse(at.sane_masks(torch.nn.Linear(2, 2)))

    def test_a_model_that_compares_the_name_is_left_alone(self):
        with mock.patch.object(_masks, "_source", lambda kind: 'if self.config._attn_implementation == "sdpa":'):
            masks = at.sane_masks(tiny("Bert"))
        self.assertFalse(masks)
        self.assertIn("compares the name", str(masks))

    def test_deep_copies_and_pickles_keep_it(self):
        model = tiny("Bert")
        wanted = output(model)
        at.sane_masks(model)
        for made in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
            seen, found = seen_masks(lambda: self.captured(made, {}))
            self.assertTrue(torch.equal(found, wanted))
            self.assertEqual(seen, [None, None])
        self.assertNotIn("autotune", str(model.state_dict().keys()))

    def test_another_process_reads_a_pickle(self):
        model = tiny("T5")
        at.sane_masks(model)
        with tempfile.NamedTemporaryFile(suffix=".pt") as file:
            torch.save(model, file.name)
            code = f"import torch; m = torch.load({file.name!r}, weights_only=False); print(m(input_ids=torch.ones(1, 4, dtype=torch.long))[0].shape)"
            ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        self.assertIn("torch.Size([1, 4, 32])", ended.stdout, ended.stderr)

    def test_a_saved_configuration_does_not_have_it(self):
        model = tiny("Llama")
        at.sane_masks(model)
        self.assertNotIn("autotune", model.config.to_json_string(use_diff=False))

    def test_gradients_stay(self):
        for name in ("Bert", "T5"):
            with self.subTest(name):
                model = tiny(name)
                found = []
                for _ in range(2):
                    model.zero_grad()
                    model(input_ids=ids())[0].square().mean().backward()
                    found.append([each.grad.clone() for each in model.parameters() if each.grad is not None])
                    at.sane_masks(model)
                for a, b in zip(*found):
                    torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-7)

    def test_tune_uses_it_unless_told_not_to(self):
        import autotune.torch._tune as tuning

        model = tiny("Bert")
        with mock.patch.object(tuning, "need_gpu", lambda: None), mock.patch.object(tuning, "collect", lambda step: {}), mock.patch.object(tuning, "sweep", lambda *_, **__: None), mock.patch.object(
            torch.cuda, "current_device", lambda: 0
        ), mock.patch.object(tuning._verdicts, "device_of", lambda _: "a card"), mock.patch.object(tuning._verdicts, "store", lambda *_: None):
            self.assertFalse(at.tune(model, (ids(),), sane_masks=False).masks)
            self.assertEqual(model.config._attn_implementation, "sdpa")
            report = at.tune(model, (ids(),))
            again = at.tune(model, (ids(),))
        self.assertIn("sane masks in BertModel", str(report))
        self.assertIn("sane masks of an earlier call in BertModel", str(again))
        self.assertIn("model.cuda()", str(report))
        report.masks.undo()
        self.assertEqual(model.config._attn_implementation, "sdpa")
        self.assertIn("undone", str(report.masks))

    def test_a_tune_that_fails_leaves_the_model_its_masks(self):
        import autotune.torch._tune as tuning

        def fail(step):
            raise MemoryError("the model's own")

        model = tiny("Bert")
        with mock.patch.object(tuning, "need_gpu", lambda: None), mock.patch.object(tuning, "collect", fail), self.assertRaises(MemoryError):
            at.tune(model, (ids(),))
        self.assertEqual(model.config._attn_implementation, "sdpa")
        with mock.patch.object(torch.cuda, "is_available", lambda: False), self.assertRaisesRegex(autotune.NoGpu, "measures on an NVIDIA GPU"):
            at.tune(model, (ids(),))
        self.assertEqual(model.config._attn_implementation, "sdpa")


class Attention(torch.nn.Module):
    """Attention as timm and diffusers implement it."""

    def __init__(self):
        super().__init__()
        self.qkv = torch.nn.Linear(32, 96)

    def forward(self, x, attn_mask=None):
        q, k, v = self.qkv(x).unflatten(-1, (3, 2, 16)).permute(2, 0, 3, 1, 4)
        return F.scaled_dot_product_attention(q, k, v, attn_mask, dropout_p=0.0).transpose(1, 2).flatten(2)


def by_queries(length=LENGTH):
    """A padding mask whose last stride is 0: rows of queries that are padding see nothing."""
    seen = torch.arange(length)[None] < torch.tensor([length, length // 2])[:, None]
    return torch.where(seen, 0.0, -1.0)[:, None, :, None].expand(BATCH, 1, length, length)


class Outside(unittest.TestCase):
    """Modules that call torch's function themselves, without transformers."""

    def setUp(self):
        torch.manual_seed(0)
        self.x = torch.randn(BATCH, LENGTH, 32)

    def check(self, model, mask, call=None):
        call = call or (lambda module: module(self.x, mask))
        with torch.no_grad():
            wanted = call(model)
            masks = at.sane_masks(model)
            self.assertTrue(masks)
            self.assertIn("scaled_dot_product_attention", str(masks))
            seen, found = reaching_masks(lambda: call(model))
            self.assertTrue(torch.equal(found, wanted))
            self.assertEqual([each.stride(-1) for each in seen], [1] * len(seen))
            self.assertEqual(_masks._running, [])
            given = []
            self.assertTrue(torch.equal(call(compiled(model, given)), wanted))
            self.assertEqual([each.stride(-1) for each in given], [1] * len(given))
            masks.undo()
            seen, found = reaching_masks(lambda: call(model))
            self.assertTrue(any(each.stride(-1) != 1 for each in seen))
            self.assertTrue(torch.equal(found, wanted))
        return len(given)

    def test_a_module_like_timms(self):
        self.assertEqual(self.check(Attention().eval(), by_queries()), 1)
        self.check(Attention().eval(), torch.randn(2, LENGTH, LENGTH).mT[:, None])

    def test_torchs_multihead_attention(self):
        module = torch.nn.MultiheadAttention(32, 2, batch_first=True)  # in training torch has no fast path of its own
        mask = by_queries()[0, 0]
        self.check(module, mask, lambda run: run(self.x, self.x, self.x, attn_mask=mask, need_weights=False)[0])

    def test_timm(self):
        try:
            import timm
        except ImportError:
            self.skipTest("needs timm")
        model = timm.create_model("vit_tiny_patch16_224", img_size=32, patch_size=16, depth=2)
        self.assertIn("Attention", str(at.sane_masks(model)))

    def test_other_modules_and_other_calls_keep_their_masks(self):
        self.assertFalse(at.sane_masks(torch.nn.Linear(2, 2)))
        model, other, mask = Attention(), Attention(), by_queries()
        at.sane_masks(model)
        seen, _ = reaching_masks(lambda: other(self.x, mask))
        self.assertEqual(seen[0].stride(-1), 0)

    def test_errors_are_torchs_and_leave_nothing_behind(self):
        model = Attention()
        at.sane_masks(model)
        for mask in (3, torch.ones(5, 7)):
            with self.assertRaises((TypeError, RuntimeError)):
                model(self.x, mask)
        self.assertEqual(_masks._running, [])

    def test_copies_and_pickles_keep_it(self):
        model, mask = Attention(), by_queries()
        at.sane_masks(model)
        for made in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
            seen, _ = reaching_masks(lambda: made(self.x, mask))
            self.assertEqual(seen[0].stride(-1), 1)

    def test_gradients_and_scripts(self):
        model = Attention()
        bias = torch.randn(2, LENGTH, LENGTH).mT[:, None].requires_grad_()
        wanted = torch.autograd.grad(model(self.x, bias).sum(), bias)[0]
        at.sane_masks(model)
        torch.testing.assert_close(torch.autograd.grad(model(self.x, bias).sum(), bias)[0], wanted)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            scripted = torch.jit.script(scripted_attention)
        torch.testing.assert_close(scripted(self.x), F.scaled_dot_product_attention(self.x, self.x, self.x))


    def test_a_class_of_masks_that_compares_the_function(self):
        """torch's CausalBias asks whether it is torch's function that was called, in code of other models too."""
        model, mask = Attention().eval(), causal_lower_right(LENGTH, LENGTH)
        wanted = model(self.x, mask).as_subclass(torch.Tensor)
        at.sane_masks(model)
        self.assertIs(F.scaled_dot_product_attention, _masks._scaled_dot_product_attention)
        for each in (model, copy.deepcopy(model), compiled(model, []), torch.compile(model, backend="eager")):
            torch.testing.assert_close(each(self.x, mask).as_subclass(torch.Tensor), wanted, rtol=0, atol=0)
        other = Attention().eval()
        other.load_state_dict(model.state_dict())
        torch.testing.assert_close(other(self.x, mask).as_subclass(torch.Tensor), wanted, rtol=0, atol=0)
        self.assertIs(F.scaled_dot_product_attention, _masks._scaled_dot_product_attention)

    def test_modes_and_classes_of_tensors_see_torchs_function(self):
        at.sane_masks(Attention())
        seen = []

        class Mode(torch.overrides.TorchFunctionMode):
            def __torch_function__(self, function, types, args=(), kwargs=None):
                seen.append(function is F.scaled_dot_product_attention)
                return function(*args, **(kwargs or {}))

        class Own(torch.Tensor):
            @classmethod
            def __torch_function__(cls, function, types, args=(), kwargs=None):
                seen.append(function is F.scaled_dot_product_attention)
                return super().__torch_function__(function, types, args, kwargs or {})

        with Mode():
            F.scaled_dot_product_attention(self.x, self.x, self.x)
        F.scaled_dot_product_attention(self.x.as_subclass(Own), self.x, self.x)
        self.assertEqual((seen[0], seen[-1]), (True, True))
        with self.assertRaises(RuntimeError):
            F.scaled_dot_product_attention(self.x.as_subclass(Own), self.x[:, :, :3], self.x)
        self.assertEqual(_masks._needing_torchs, 0)
        self.assertIs(F.scaled_dot_product_attention, _masks._scaled_dot_product_attention)

    def test_masks_of_a_class_in_many_threads(self):
        model, mask, bias = Attention().eval(), causal_lower_right(LENGTH, LENGTH), by_queries()
        wanted = [model(self.x, each).detach().as_subclass(torch.Tensor) for each in (mask, bias)]
        at.sane_masks(model)
        wrong = []

        def work(index):
            for _ in range(20):
                found = model(self.x, (mask, bias)[index % 2]).detach().as_subclass(torch.Tensor)
                if not torch.equal(found, wanted[index % 2]):
                    wrong.append(index)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        self.assertEqual(wrong, [])
        self.assertIs(F.scaled_dot_product_attention, _masks._scaled_dot_product_attention)

    def test_a_function_of_another_library_stays(self):
        other = mock.Mock(wraps=_masks._torchs)
        with mock.patch.object(F, "scaled_dot_product_attention", other):
            masks = at.sane_masks(Attention())
            self.assertFalse(masks)
            self.assertIn("another library has replaced", str(masks))
            self.assertIs(F.scaled_dot_product_attention, other)

    def test_scripts_of_models_leave_the_hooks_out(self):
        for make in (lambda: torch.nn.TransformerEncoder(encoder_layer(), 2), lambda: torch.nn.Sequential(torch.nn.TransformerEncoder(encoder_layer(), 1))):
            model = make().eval()
            wanted = model(self.x)
            masks = at.sane_masks(model)
            hooks = dict(model._forward_pre_hooks)
            self.assertTrue(hooks)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                scripted = torch.jit.script(model)
            torch.testing.assert_close(scripted(self.x), wanted)
            self.assertEqual(dict(model._forward_pre_hooks), hooks)
            masks.undo()
            self.assertEqual(len(model._forward_pre_hooks), 0)

    def test_a_layer_with_a_way_of_its_own_is_left_alone(self):
        layer = encoder_layer().eval()
        padding = torch.arange(LENGTH)[None] >= torch.tensor([LENGTH, LENGTH // 2])[:, None]
        with torch.no_grad():
            wanted = layer(self.x, src_key_padding_mask=padding)
            masks = at.sane_masks(layer)
            self.assertFalse(masks)
            self.assertIn("faster way of its own", str(masks))
            self.assertTrue(torch.equal(layer(self.x, src_key_padding_mask=padding), wanted))

    def test_what_is_no_module_is_refused(self):
        with self.assertRaisesRegex(TypeError, "takes a torch.nn.Module, not list"):
            at.sane_masks([Attention()])


def encoder_layer():
    torch.manual_seed(0)
    return torch.nn.TransformerEncoderLayer(32, 2, 64, batch_first=True)


def scripted_attention(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.scaled_dot_product_attention(x, x, x)


class Rows(unittest.TestCase):
    def test_rows_become_contiguous_with_the_same_values(self):
        wide = torch.randn(2, 3, 4, 5)
        for mask in (wide.transpose(-1, -2), wide[..., ::2], wide[..., :1].expand(-1, -1, -1, 5)):
            made = _masks.contiguous_rows(mask)
            self.assertEqual(made.stride(-1), 1)
            self.assertTrue(torch.equal(made, mask))
        for kept in (wide, wide[:, :, :1].expand(-1, -1, 4, -1), wide[..., :1], torch.tensor(1.0)):
            self.assertIs(_masks.contiguous_rows(kept), kept)
        self.assertIsNone(_masks.contiguous_rows(None))


if __name__ == "__main__":
    unittest.main()
