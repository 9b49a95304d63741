// Emulated twin of templates/ptx/shared.h.
#pragma once

#include "common/types.h"
#include "tests/emulator/machine/isa.h"

namespace gemmd::ptx {

inline uint32 SharedBase() { return emulator::isa::SharedBase(); }

inline void StoreShared(uint32 address, float value) {
  emulator::isa::CheckFloat(value);
  emulator::isa::StoreShared(address, &value, sizeof value);
}

inline void StoreShared(uint32 address, int value) {
  emulator::isa::CheckInteger(value);
  emulator::isa::StoreShared(address, &value, sizeof value);
}

inline void StoreShared(uint32 address, float first, float second) {
  emulator::isa::CheckFloat(first);
  emulator::isa::CheckFloat(second);
  const float values[] = {first, second};
  emulator::isa::StoreShared(address, values, sizeof values);
}

inline void StoreShared(uint32 address, int first, int second) {
  emulator::isa::CheckInteger(first);
  emulator::isa::CheckInteger(second);
  const int values[] = {first, second};
  emulator::isa::StoreShared(address, values, sizeof values);
}

inline void StoreShared16(uint32 address, uint32 value) {
  const auto low = static_cast<uint16>(value);
  emulator::isa::StoreShared(address, &low, sizeof low);
}

inline void StoreShared8(uint32 address, uint32 value) {
  const auto low = static_cast<uint8>(value);
  emulator::isa::StoreShared(address, &low, sizeof low);
}

inline void LoadShared(uint32 address, float& value) {
  emulator::isa::LoadShared(address, &value, sizeof value);
}

inline void LoadShared(uint32 address, float& first, float& second) {
  float values[2];
  emulator::isa::LoadShared(address, values, sizeof values);
  first = values[0];
  second = values[1];
}

inline void LoadShared(uint32 address, int& value) {
  emulator::isa::LoadShared(address, &value, sizeof value);
}

inline void LoadShared(uint32 address, float (&v)[4]) {
  emulator::isa::LoadShared(address, v, sizeof v);
}

inline void LoadShared(uint32 address, int (&v)[4]) {
  emulator::isa::LoadShared(address, v, sizeof v);
}

inline void LoadSharedWords(uint32 address, uint32* to) {
  emulator::isa::LoadShared(address, to, 16);
}

template <typename T>
inline void LoadShared(uint32 address, T& element) {
  emulator::isa::LoadShared(address, &element.bits, 1);
}

template <int kCount>
inline void StoreMatrix(uint32 address, const uint32 (&v)[kCount]) {
  emulator::isa::StoreMatrices(address, v, kCount, false);
}

template <int kCount>
inline void StoreMatrixTransposed(uint32 address, const uint32 (&v)[kCount]) {
  emulator::isa::StoreMatrices(address, v, kCount, true);
}

template <int kCount>
inline void LoadMatrix(uint32 address, uint32 (&v)[kCount]) {
  emulator::isa::LoadMatrices(address, v, kCount, false);
}

template <int kCount>
inline void LoadMatrixTransposed(uint32 address, uint32 (&v)[kCount]) {
  emulator::isa::LoadMatrices(address, v, kCount, true);
}

}  // namespace gemmd::ptx
