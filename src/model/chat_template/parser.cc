#include "model/chat_template/parser.h"

#include "model/chat_template/expression_parser.h"

namespace butterfly::model::chat_template {

namespace {

using Names = std::initializer_list<std::string_view>;

class Parser {
 public:
  explicit Parser(std::string_view source) : in_(tokenize(source)) {}

  Block run() {
    Block block = body({});
    if (in_.current().kind != TokenKind::kEnd) in_.unexpected("a statement");
    return block;
  }

 private:
  static Stmt make(StmtKind kind, int line) {
    Stmt statement;
    statement.kind = kind;
    statement.line = line;
    return statement;
  }
  void end_tag() { in_.expect_kind(TokenKind::kTagEnd, "%}"); }

  // Statements until a tag of one of `ends` (its name is then the current token) or the end of the template.
  Block body(Names ends) {
    const ExpressionParser::Nesting nesting(in_);
    Block block;
    while (in_.current().kind != TokenKind::kEnd) {
      const int line = in_.current().line;
      if (in_.current().kind == TokenKind::kText) {
        block.push_back(make(StmtKind::kText, line));
        block.back().name = in_.take().text;
      } else if (in_.current().kind == TokenKind::kOutputBegin) {
        in_.take();
        block.push_back(make(StmtKind::kOutput, line));
        block.back().expr = in_.tuple(true);
        in_.expect_kind(TokenKind::kOutputEnd, "}}");
      } else {
        in_.expect_kind(TokenKind::kTagBegin, "{%");
        for (const std::string_view end : ends)
          if (in_.current().is_name(end)) return block;
        statement(block, line);
      }
    }
    if (ends.size() > 0) in_.unexpected(fmt::format("{{% {} %}}", *(ends.end() - 1)));
    return block;
  }

  // A body and its end tag.
  Block body_until(std::string_view end) {
    Block block = body({end});
    in_.take();
    end_tag();
    return block;
  }

  void statement(Block& block, int line) {
    const Token word = in_.current();
    if (word.kind != TokenKind::kName) in_.unexpected("the name of a statement");
    struct Row {
      std::string_view name;
      Stmt (Parser::*parse)(int line);
    };
    static constexpr Row kStatements[] = {
        {"if", &Parser::if_},       {"for", &Parser::for_},
        {"set", &Parser::set},      {"macro", &Parser::macro},
        {"call", &Parser::call},    {"filter", &Parser::filter},
        {"with", &Parser::with},    {"generation", &Parser::generation},
        {"break", &Parser::break_}, {"continue", &Parser::continue_},
    };
    for (const Row& row : kStatements) {
      if (word.text != row.name) continue;
      in_.take();
      block.push_back((this->*row.parse)(line));
      return;
    }
    in_.unexpected("a statement (if, for, set, macro, call, filter, with, break, continue)");
  }

  Stmt if_(int line) {
    Stmt statement = make(StmtKind::kIf, line);
    while (true) {
      Branch& branch = statement.branches.emplace_back();
      branch.condition = in_.tuple(false);
      end_tag();
      branch.body = body({"elif", "else", "endif"});
      if (!in_.skip_name("elif")) break;
    }
    if (in_.skip_name("else")) {
      end_tag();
      statement.branches.emplace_back().body = body({"endif"});
    }
    in_.take();
    end_tag();
    return statement;
  }

  Stmt for_(int line) {
    Stmt statement = make(StmtKind::kFor, line);
    statement.target = in_.target({"in"});
    if (!in_.skip_name("in")) in_.unexpected("'in'");
    statement.expr = in_.tuple(false, {"recursive"});
    if (in_.skip_name("if")) statement.filter = in_.expression();
    statement.recursive = in_.skip_name("recursive");
    end_tag();
    ++loops_;
    statement.body = body({"else", "endfor"});
    --loops_;
    if (in_.skip_name("else")) {
      end_tag();
      statement.otherwise = body({"endfor"});
    }
    in_.take();
    end_tag();
    return statement;
  }

  Stmt set(int line) {
    Stmt statement = make(StmtKind::kSet, line);
    statement.target = in_.target({});
    if (in_.skip_operator("=")) {
      statement.expr = in_.tuple(true);
      end_tag();
      return statement;
    }
    statement.kind = StmtKind::kSetBlock;
    if (in_.skip_operator("|")) statement.filter = in_.filters_without_operand();
    end_tag();
    statement.body = body_until("endset");
    return statement;
  }

  void parameters(Stmt& statement) {
    in_.expect_operator("(");
    while (!in_.current().is_operator(")")) {
      std::string name = in_.expect_name();
      ExprPtr value = in_.skip_operator("=") ? in_.expression() : nullptr;
      statement.parameters.emplace_back(std::move(name), std::move(value));
      if (!in_.skip_operator(",")) break;
    }
    in_.expect_operator(")");
  }

  // The body of a macro is not in the loops around it.
  Block macro_body(std::string_view end) {
    const int loops = std::exchange(loops_, 0);
    Block block = body_until(end);
    loops_ = loops;
    return block;
  }

  Stmt macro(int line) {
    Stmt statement = make(StmtKind::kMacro, line);
    statement.name = in_.expect_name();
    parameters(statement);
    end_tag();
    statement.body = macro_body("endmacro");
    return statement;
  }

  Stmt call(int line) {
    Stmt statement = make(StmtKind::kCall, line);
    statement.name = "caller";
    if (in_.current().is_operator("(")) parameters(statement);
    statement.expr = in_.expression();
    if (statement.expr->kind != ExprKind::kCall) in_.unexpected("a call");
    end_tag();
    statement.body = macro_body("endcall");
    return statement;
  }

  Stmt filter(int line) {
    Stmt statement = make(StmtKind::kFilter, line);
    statement.filter = in_.filters_without_operand();
    end_tag();
    statement.body = body_until("endfilter");
    return statement;
  }

  Stmt with(int line) {
    Stmt statement = make(StmtKind::kWith, line);
    while (in_.current().kind != TokenKind::kTagEnd) {
      std::string name = in_.expect_name();
      in_.expect_operator("=");
      statement.parameters.emplace_back(std::move(name), in_.expression());
      if (!in_.skip_operator(",")) break;
    }
    end_tag();
    statement.body = body_until("endwith");
    return statement;
  }

  // transformers marks what the assistant said with it; the text is the same.
  Stmt generation(int line) {
    Stmt statement = make(StmtKind::kWith, line);
    end_tag();
    statement.body = body_until("endgeneration");
    return statement;
  }

  Stmt jump(StmtKind kind, int line) {
    if (loops_ == 0) fail(Errc::kInvalidArgument, "line {}: break or continue outside of a loop", line);
    end_tag();
    return make(kind, line);
  }
  Stmt break_(int line) { return jump(StmtKind::kBreak, line); }
  Stmt continue_(int line) { return jump(StmtKind::kContinue, line); }

  ExpressionParser in_;
  int loops_ = 0;
};

}  // namespace

Block parse(std::string_view source) { return Parser(source).run(); }

}  // namespace butterfly::model::chat_template
