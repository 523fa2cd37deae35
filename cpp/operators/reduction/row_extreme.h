// The place of the largest or smallest of elements that are neighbours, in loops that the compiler makes vectors of.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace dmlcpu {

// As wide as a type.
template <class Type>
using BitsOf =
    std::conditional_t<sizeof(Type) == 1, std::uint8_t,
                       std::conditional_t<sizeof(Type) == 2, std::uint16_t,
                                          std::conditional_t<sizeof(Type) == 4, std::uint32_t, std::uint64_t>>>;

// chosen ? a : b, by a mask: two such choices by one condition would become a branch, and no vectors.
template <class Type>
Type choice(bool chosen, Type a, Type b) noexcept {
  using Bits = BitsOf<Type>;
  const auto mask = static_cast<Bits>(-static_cast<std::make_signed_t<Bits>>(chosen));
  const auto rest = static_cast<Bits>(~mask);
  return std::bit_cast<Type>(static_cast<Bits>((std::bit_cast<Bits>(a) & mask) | (std::bit_cast<Bits>(b) & rest)));
}

// Of each of some rows an element, at this place, and the best before it.
template <class Element, class Place, class Wins>
void take_winners(const Element* values, std::size_t count, Place place, Element* __restrict best,
                  Place* __restrict places, const Wins& wins) noexcept {
  for (std::size_t i = 0; i < count; ++i) {
    const Element value = values[i], other = best[i];
    const bool won = wins(value, other);
    best[i] = choice(won, value, other);
    places[i] = choice(won, place, places[i]);
  }
}

// Elements that are looked at together: some vectors, and too many for the loop to be unrolled before there are any.
template <class Element>
inline constexpr std::size_t kExtremeLanes = std::max<std::size_t>(64 / sizeof(Element), 32);

template <class Element, class Wins>
void take_best(const Element* elements, Element* __restrict best, const Wins& wins) noexcept {
  for (std::size_t lane = 0; lane < kExtremeLanes<Element>; ++lane) {
    const Element value = elements[lane], other = best[lane];
    best[lane] = wins(value, other) ? value : other;
  }
}

// The extreme of the elements that are no NaN, or the first one if that is a NaN.
template <class Element, class Wins>
Element extreme_of(const Element* elements, std::size_t count, const Wins& wins) noexcept {
  constexpr std::size_t kLanes = kExtremeLanes<Element>;
  Element extreme = elements[0];
  if (count < kLanes) {
    for (std::size_t i = 1; i < count; ++i) extreme = wins(elements[i], extreme) ? elements[i] : extreme;
    return extreme;
  }
  Element best[kLanes];
  std::fill_n(best, kLanes, extreme);
  for (std::size_t i = 0; i + kLanes <= count; i += kLanes) take_best(elements + i, best, wins);
  take_best(elements + (count - kLanes), best, wins);  // some of them twice
  for (std::size_t half = kLanes / 2; half > 0; half /= 2) {
    for (std::size_t lane = 0; lane < half; ++lane) {
      best[lane] = wins(best[lane + half], best[lane]) ? best[lane + half] : best[lane];
    }
  }
  return best[0];
}

template <class Element>
bool holds(const Element* elements, Element value) noexcept {
  using Bits = BitsOf<Element>;
  Bits found = 0;
  for (std::size_t lane = 0; lane < kExtremeLanes<Element>; ++lane) {
    found = static_cast<Bits>(found | static_cast<Bits>(elements[lane] == value));
  }
  return found != 0;
}

// The place of the extreme of one element or more, the last of several; wins says whether an element is further out
// than another. A NaN wins over none, nor is it won over: the place is 0 if it is the first. Elements that change
// meanwhile may have any place.
template <class Element, class Wins>
std::size_t place_of_extreme(const Element* elements, std::size_t count, const Wins& wins, bool last) noexcept {
  constexpr std::size_t kLanes = kExtremeLanes<Element>;
  const Element value = extreme_of(elements, count, wins);
  if (!(value == value)) return 0;
  if (last) {
    std::size_t end = count;
    while (end >= kLanes && !holds(elements + end - kLanes, value)) end -= kLanes;
    while (end > 1 && !(elements[end - 1] == value)) --end;
    return end - 1;
  }
  std::size_t place = 0;
  while (place + kLanes <= count && !holds(elements + place, value)) place += kLanes;
  while (place + 1 < count && !(elements[place] == value)) ++place;
  return place;
}

}  // namespace dmlcpu
