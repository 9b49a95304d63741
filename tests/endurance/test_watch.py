"""Whether a leak would be seen."""

import random
import unittest

from endurance.watch import Watch


def samples(count, bytes_a_request=0.0, noise=0.0):
    dice = random.Random(1)
    watch = Watch(0, "")
    for i in range(count):
        watch.samples.append({
            "seconds": 2.0 * i, "requests": 500.0 * i, "threads": 40 + i,
            # What caches take is there after the first third.
            "resident_bytes": int(5e8 - 3e8 * max(0, 1 - 3 * i / count)
                                  + 500 * i * bytes_a_request
                                  + dice.gauss(0, noise))})
    return watch


class GrowthTest(unittest.TestCase):
    def test_what_fills_first_does_not_count(self):
        self.assertAlmostEqual(samples(100).growth()[0], 0, delta=1)

    def test_a_leak_of_a_hundred_bytes_a_request_is_seen_in_an_hour(self):
        growth, error, each = samples(
            1800, bytes_a_request=100, noise=4e6).growth()
        self.assertAlmostEqual(each, 100, delta=10)
        self.assertGreater(growth, 16 << 20)
        self.assertLess(error, growth / 10)

    def test_noise_alone_is_no_leak(self):
        growth, error, _ = samples(1800, noise=4e6).growth()
        self.assertLess(abs(growth), 4 * error)
        self.assertLess(growth, 16 << 20)

    def test_too_few_samples_tell_nothing(self):
        self.assertEqual(samples(4).growth()[0], 0)

    def test_threads_of_the_second_half(self):
        self.assertEqual(samples(100).new_threads(), 49)
