"""check_agreement(): what it says when ranks would run different kernels. No GPU and no process group are needed."""

import unittest
from unittest import mock

from autotune.torch import _agreement

PARTS = {"version": "0.1.0", "label": "ab12", "nvrtc": "13.0", "verdicts": "none"}


class AgreementTest(unittest.TestCase):
    def said(self, *ranks):
        def gather(to, mine, group=None):
            to[:] = [dict(PARTS, **each) for each in ranks]

        with mock.patch.object(_agreement, "_parts", return_value=dict(PARTS, **ranks[0])), mock.patch.object(
            _agreement.torch.distributed, "get_world_size", return_value=len(ranks)
        ), mock.patch.object(_agreement.torch.distributed, "all_gather_object", side_effect=gather):
            try:
                _agreement.check_agreement()
            except RuntimeError as error:
                return str(error)
        return ""

    def test_ranks_that_agree_say_nothing(self):
        self.assertEqual(self.said({}, {}, {}), "")

    def test_names_what_differs_and_where(self):
        self.assertEqual(
            self.said({}, {"label": "cd34"}, {}, {"nvrtc": "12.9"}),
            "ranks would run different kernels. label: ranks 0, 2, 3 have ab12, rank 1 has cd34; nvrtc: ranks 0, 1, 2 have 13.0, rank 3 has 12.9",
        )

    def test_needs_a_label(self):
        self.assertIn("no label is set", self.said({"label": "off"}, {"label": "off"}))
        self.assertIn("its label cannot be used", self.said({"label": "none"}, {"label": "none"}))


if __name__ == "__main__":
    unittest.main()
