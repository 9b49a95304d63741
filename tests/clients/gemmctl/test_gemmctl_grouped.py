"""gemmctl matmul-grouped, and gemmctl load of groups, against a daemon's host
device."""

import json
import pathlib
import unittest

import numpy as np

from gemmctl_case import (FAILED, USAGE, GemmctlCase, integers, milliseconds,
                          wide)


class GemmctlGroupedTest(GemmctlCase):
    def write(self, *lines):
        path = pathlib.Path(self.path("list"))
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return str(path)

    def multiply_all(self, lines, *flags):
        return self.run_gemmctl("matmul-grouped", self.write(*lines), *flags)

    def load_d(self, i):
        return np.load(self.path(f"d{i}.npy"))

    def product(self, i, a, b):
        """Its line, of files that are written."""
        return (f"{self.save(f'a{i}.npy', a)} {self.save(f'b{i}.npy', b)} "
                f"-o {self.path(f'd{i}.npy')}")

    def test_every_product_has_its_own_sizes(self):
        sizes = [(i, 20 - i, 3 * i + 1) for i in range(12)]
        pairs = [(integers(m, k), integers(k, n)) for m, n, k in sizes]
        lines = [self.product(i, *pair) for i, pair in enumerate(pairs)]
        lines[3:3] = ["", "  # a comment"]
        out = json.loads(self.multiply_all(lines, "--json"))
        kernels = {group["execution"]["kernel"] for group in out["groups"]}
        self.assertEqual(len(out["groups"]), 12)
        self.assertEqual(out["groups"][0]["execution"]["kernel"], "")
        self.assertEqual(len(kernels), 2)  # None, and the one of the launch.
        for i, (a, b) in enumerate(pairs):
            np.testing.assert_array_equal(self.load_d(i), a @ b)

    def test_lines_say_what_is_theirs_and_the_command_what_is_of_all(self):
        a, b = integers(4, 6), integers(6, 5)
        bias = integers(5)
        lines = [
            self.product(0, a, b),
            self.product(1, a, b) + " --alpha 3 --act silu --alpha 2",
            self.product(2, a, b) + f" --bias {self.save('bias.npy', bias)}",
            self.product(3, a, b) + " --act relu --d-type f16"]
        self.multiply_all(lines, "--dtype", "bf16", "--d-type", "f32",
                          "--alpha", "-1", "--quiet")
        exact = wide(a) @ wide(b)
        np.testing.assert_array_equal(self.load_d(0), -exact)
        silu = 2 * exact / (1 + np.exp(-2 * exact))
        np.testing.assert_allclose(self.load_d(1), silu, 1e-5, 1e-5)
        np.testing.assert_array_equal(self.load_d(2), bias - exact)
        self.assertEqual(self.load_d(3).dtype, np.float16)
        np.testing.assert_array_equal(self.load_d(3), np.maximum(-exact, 0))

    def test_tensors_quotes_and_standard_streams(self):
        a, b = integers(4, 6), integers(6, 5)
        handle = self.run_gemmctl("tensor", "upload",
                                  self.save("w.npy", b)).strip()
        spaced = self.save("with blank.npy", a)
        first = self.path("d0.npy")
        out = self.run_gemmctl("matmul-grouped", self.write(
            f"'{spaced}' tensor:{handle} --output={first}",
            f"\"{spaced}\" tensor:{handle} -o {self.path('d1.npy')}"))
        self.assertEqual(out, "")
        for i in range(2):
            np.testing.assert_array_equal(self.load_d(i), a @ b)

    def test_what_is_wrong_is_named_with_its_line(self):
        a, b = integers(4, 6), integers(6, 5)
        right = self.product(1, a, b)
        for line, says in (
                ("a.npy", "B is required"),
                ("a.npy b.npy", "--output is required"),
                ("a b c -o d", "c is more than was asked for"),
                (f"{right} --spede 3", "--spede is no option"),
                (f"{right} --act tanh", "--activation is tanh; allowed: "),
                (f"{right} --beta 1", "--beta needs --c FILE"),
                (f"{right} --c c.npy", "--c requires --beta"),
                (f"{right} --help", "of the command line"),
                (self.product(2, a, a), "has 6 columns but")):
            with self.subTest(line):
                error = self.run_gemmctl(
                    "matmul-grouped", self.write("# one", self.product(0, a, b), line),
                    code=USAGE)
                self.assertIn(": line 3: ", error)
                self.assertIn(says, error)

    def test_files_and_numbers_of_products_are_checked(self):
        right = self.product(0, integers(4, 6), integers(6, 5))

        def refuse(says, *lines, code=USAGE):
            self.assertIn(says, self.run_gemmctl(
                "matmul-grouped", self.write(*lines), code=code))

        refuse("has 0 products; allowed: 1 to 256", "# none")
        refuse("has 257 products; allowed: 1 to 256", *[right] * 257)
        self.assertIn("more than 16777216 bytes", self.run_gemmctl(
            "matmul-grouped", "/dev/zero", code=FAILED))
        refuse("several results go to ", right, right)
        refuse("only one file can come from standard input", "- - -o x.npy")
        refuse("only one result can go to standard output",
               "a.npy b.npy -o -", "a.npy b.npy -o -")
        refuse("none.npy", "none.npy none.npy -o x.npy", code=FAILED)
        self.assertIn("cannot read", self.run_gemmctl(
            "matmul-grouped", self.path("none"), code=FAILED))

    def test_of_a_call_that_fails_nothing_is_written(self):
        a, b = integers(2, 6), integers(6, 5)
        pathlib.Path(self.path("d0.npy")).unlink(missing_ok=True)
        lines = [self.product(0, a, b),
                 self.product(1, a, b) + " --device=cuda:7"]
        error = self.run_gemmctl("matmul-grouped", self.write(*lines),
                                 code=FAILED)
        self.assertIn("groups[1]: ", error)
        self.assertFalse(pathlib.Path(self.path("d0.npy")).exists())

    def test_load_asks_for_groups(self):
        group = "bf16 TN 1 48 32 order=row ; 16*10+0+3"
        found = json.loads(self.run_gemmctl(
            "load", group, "bf16 TN 8 8 8", "--ways", "inline,resident",
            "--duration", milliseconds(3000), "--json"))
        self.assertEqual(found["failed"], 0, found["errors"])
        works = {work["name"]: work["latency"]["count"]
                 for work in found["works"]}
        name = "bf16 TN 16 48 32 order=row ; 16*10+0+3"
        self.assertGreater(works[f"{name} inline"], 0)
        self.assertGreater(works[f"{name} resident"], 0)
        # Multiplications and additions of 163 rows; bytes as they travel: who
        # has no row has weights nevertheless.
        inline = json.loads(self.run_gemmctl(
            "load", group, "--duration", milliseconds(300), "--json"))
        rate = inline["requests_per_s"]
        self.assertAlmostEqual(
            inline["operations_per_s"] / (rate * 2 * 163 * 48 * 32), 1)
        self.assertAlmostEqual(inline["sent_bytes_per_s"] / (
            rate * 2 * (163 * 32 + 12 * 48 * 32)), 1)
        self.assertAlmostEqual(
            inline["received_bytes_per_s"] / (rate * 2 * 163 * 48), 1)
        self.assertIn("allowed: inline, resident", self.run_gemmctl(
            "load", group, "--ways", "stream", code=USAGE))
        self.assertIn("size is 'x'", self.run_gemmctl(
            "load", "bf16 TN 1 2 3 ; x", code=USAGE))


if __name__ == "__main__":
    unittest.main()
