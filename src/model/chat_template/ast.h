// The tree of a template.
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "model/chat_template/value.h"

namespace butterfly::model::chat_template {

enum class Op { kAdd, kSub, kMul, kDiv, kFloorDiv, kMod, kPow, kEq, kNe, kLt, kLe, kGt, kGe, kIn, kNotIn };

enum class ExprKind {
  kConst,    // value
  kName,     // name
  kList,     // operands
  kTuple,    // operands
  kDict,     // operands: key, value, key, value ...
  kAttr,     // operands[0] . name
  kItem,     // operands[0] [ operands[1] ]
  kSlice,    // operands[0] [ operands[1] : operands[2] : operands[3] ]; null where absent
  kCall,     // operands[0] ( the others, named )
  kFilter,   // operands[0] | name ( the others, named ); operands[0] is null in a filter block
  kTest,     // operands[0] is name ( the others, named )
  kNot,      // operands[0]
  kNeg,      // operands[0]
  kPos,      // operands[0]
  kBinary,   // operands[0] ops[0] operands[1]
  kAnd,      // operands[0], operands[1]
  kOr,       // operands[0], operands[1]
  kCompare,  // operands[0] ops[0] operands[1] ops[1] operands[2] ...
  kConcat,   // operands joined by ~
  kSpread,   // * operands[0], among the arguments of a call
  kCond,     // operands[0] if operands[1] else operands[2]; the last is null where absent
};

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

struct Expr {
  ExprKind kind;
  int line = 0;
  int height = 1;
  Value value;
  std::string name;
  std::vector<ExprPtr> operands;
  std::vector<std::pair<std::string, ExprPtr>> named;  // without a name: ** a dict
  std::vector<Op> ops;
};

enum class StmtKind {
  kText,      // name: the text
  kOutput,    // expr
  kIf,        // branches
  kFor,       // target, expr, filter, body, otherwise, recursive
  kSet,       // target, expr
  kSetBlock,  // target, body; filter: filters on the text
  kMacro,     // name, parameters, body
  kCall,      // expr (a kCall), parameters, body
  kFilter,    // filter: filters on the text of body
  kWith,      // parameters: names and values; body
  kBreak,
  kContinue,
};

struct Stmt;
using Block = std::vector<Stmt>;

struct Branch;

struct Stmt {
  StmtKind kind;
  int line = 0;
  std::string name;
  ExprPtr target;  // a name, an attribute of a name (namespaces) or a tuple of targets
  ExprPtr expr;
  ExprPtr filter;
  std::vector<std::pair<std::string, ExprPtr>> parameters;  // with defaults, null where none
  std::vector<Branch> branches;
  Block body;
  Block otherwise;
  bool recursive = false;
};

// `condition` is null in the else branch.
struct Branch {
  ExprPtr condition;
  Block body;
};

}  // namespace butterfly::model::chat_template
