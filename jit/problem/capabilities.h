// The table of what can be asked, for people: made from the tables that
// validation reads. Pure functions, thread-safe.
#ifndef GEMMD_JIT_PROBLEM_CAPABILITIES_H_
#define GEMMD_JIT_PROBLEM_CAPABILITIES_H_

#include <string>

namespace gemmd::jit {

// Markdown, as README.md has it: the types, and the steps of the epilogue.
std::string CapabilitiesMarkdown();
std::string EpilogueMarkdown();

// Both for a terminal; says of each type whether this build has kernels for it.
std::string CapabilitiesText();

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_PROBLEM_CAPABILITIES_H_
