// The forms of a descriptor's blocks that describe the experiment and no trial. They are read in ReadMode::block.
#pragma once

#include "experiments/lab/descriptor/form.h"
#include "experiments/lab/descriptor/paper.h"
#include "experiments/lab/descriptor/probes.h"
#include "experiments/lab/descriptor/tested_claim.h"
#include "experiments/lab/descriptor/tune.h"

namespace normlab {

template <>
struct Form<std::vector<ProbeStep>> : ValueForm {
  static void read(FieldReader& in, const JsonNode& node, std::vector<ProbeStep>& out, Range);
  static JsonNode schema(Range) {
    JsonNode steps = list_of(Form<std::uint64_t>::schema({}));
    steps.add("uniqueItems", true);
    return steps;
  }
};

/// A list of steps, a number n for every n-th step, or an object of both.
template <>
struct Form<ProbeSteps> : ObjectForm<ProbeSteps> {
  static void read(FieldReader& in, const JsonNode& node, ProbeSteps& out, Range);
  static JsonNode schema(Range range) {
    const JsonNode steps = Form<std::vector<ProbeStep>>::schema(range), one = Form<std::uint64_t>::schema(kFromOne);
    const JsonNode parts = closed_object(object({{"at", steps}, {"every", one}, {"last", one}}));
    return if_type("array", steps, if_type("object", parts, one));
  }
};

template <>
struct Form<ProbeConfig> : ObjectForm<ProbeConfig> {
  static void read(FieldReader& in, const JsonNode& node, ProbeConfig& out, Range);
};

template <>
struct Form<JsonText> : ValueForm {
  static void read(FieldReader&, const JsonNode& node, JsonText& out, Range) { out = {value_text(node)}; }
  static JsonNode schema(Range) { return json_object(); }
};

template <>
struct Form<Deviation> : ObjectForm<Deviation> {
  static void read(FieldReader& in, const JsonNode& node, Deviation& out, Range);
};

template <>
struct Form<PaperConfig> : ObjectForm<PaperConfig> {
  static void read(FieldReader& in, const JsonNode& node, PaperConfig& out, Range);
};

/// Words, or an object with "cells": pairs of a baseline and a value, of which the difference or the ratio is printed,
/// or with "as": "value" single numbers.
template <>
struct Form<PrintedFigures> : ValueForm {
  static void read(FieldReader& in, const JsonNode& node, PrintedFigures& out, Range);
  static JsonNode schema(Range) {
    const JsonNode number = type("number");
    const JsonNode cells =
        object({{"type", "object"}, {"additionalProperties", if_type("array", pair_of(number), number)}});
    JsonNode figures = rows_schema<PrintedFigures>(object({{"cells", cells}}));
    figures.find("required")->value.items.push_back("cells");
    return if_type("object", std::move(figures), Form<std::string>::schema(kNotEmpty));
  }
};

/// With "range" or "outside".
template <>
struct Form<ClaimTest> : ObjectForm<ClaimTest> {
  static void read(FieldReader& in, const JsonNode& node, ClaimTest& out, Range);
  static JsonNode schema(Range) {
    const JsonNode bounds = pair_of(object({{"type", list_of_words({"number", "null"})}}));
    return rows_schema<ClaimTest>(object({{"range", bounds}, {"outside", bounds}}));
  }
};

template <>
struct Form<TestedClaim> : ObjectForm<TestedClaim> {
  static void read(FieldReader& in, const JsonNode& node, TestedClaim& out, Range);
};

/// A number n for 0 to n - 1, or a list.
template <>
struct Form<std::vector<std::uint64_t>> : ValueForm {
  static void read(FieldReader& in, const JsonNode& node, std::vector<std::uint64_t>& out, Range) {
    out = read_seeds(node, in.problems());
  }
  static JsonNode schema(Range) { return reference("seeds"); }
};

template <>
struct Form<TwoStageSeeds> : ObjectForm<TwoStageSeeds> {
  static void read(FieldReader& in, const JsonNode& node, TwoStageSeeds& out, Range) {
    if (in.object(node, out) && in.problems().empty() && out.max < out.first)
      in.report(node.find("max")->value.at, concat("is below \"first\", which is ", out.first));
  }
};

/// A single grid; only grids in a list may have "seeds".
template <>
struct Form<Grid> : ValueForm {
  static void read(FieldReader& in, const JsonNode& node, Grid& out, Range) {
    out = read_axes(node, in.rows(), in.problems());
  }
  static JsonNode schema(Range) {
    return object({{"$ref", "#/$defs/grid"}, {"propertyNames", object({{"not", object({{"const", "seeds"}})}})}});
  }
};

/// The settings of T that differ.
template <class T>
struct Form<Overlay<T>> : ValueForm {
  static void read(FieldReader& in, const JsonNode& node, Overlay<T>& out, Range) {
    if (!node.is_object())
      return in.report(node.at, concat("expected an object with the settings of ", in_quotes(node.at.place->key),
                                       " that differ, got ", describe(node)));
    out.settings = node;
  }
  static JsonNode schema(Range range) { return ObjectForm<T>::schema(range); }
};

template <>
struct Form<TuneMetric> : EnumForm<TuneMetric> {
  static void read(FieldReader& in, const JsonNode& node, TuneMetric& out, Range);
};

template <>
struct Form<TuneStage> : ObjectForm<TuneStage> {
  static void read(FieldReader& in, const JsonNode& node, TuneStage& out, Range);
};

}  // namespace normlab
