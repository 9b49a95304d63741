// File descriptors of the process, and who may have how many: one place, so
// that together they are no more than there are. Thread-safe.
#ifndef GEMMD_SERVICE_RPC_DESCRIPTORS_H_
#define GEMMD_SERVICE_RPC_DESCRIPTORS_H_

namespace gemmd::rpc {

// That there may be, of those whose bytes are counted (traffic.h).
int DescriptorLimit();

// Of TLS, under way at a time: an eighth of them all.
int MostHandshakes();

// Who brings memory to share (region/door.h), two each: an eighth of them all.
int MostGuests();

// Two each: three eighths of pairs, less where the daemon itself, guests and,
// where they are `secured`, handshakes would then find none.
int MostConnections(bool secured);

}  // namespace gemmd::rpc

#endif  // GEMMD_SERVICE_RPC_DESCRIPTORS_H_
