"""What no call can be made of, for tests of both clients."""

import gemmd
from both_clients import both_clients
from host_daemon import HostCase


class ArgumentsCase(HostCase):
    def both(self, **options):
        return both_clients(self.target, **{"timeout": 60, **options})

    def refused(self, says, call, *arguments, **options):
        with self.assertRaisesRegex(gemmd.InvalidArgument,
                                    f"^INVALID_ARGUMENT: {says}"):
            call(*arguments, **options)
