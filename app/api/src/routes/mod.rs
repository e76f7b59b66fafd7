//! The one table of routes. The router, the OpenAPI document and the test of authentication are
//! made from it: a new route is a handler and one line here.

pub(crate) mod lookup;
mod table;

pub(crate) use table::table;

use crate::app::App;
use axum::{
    Router,
    handler::Handler,
    http::Method,
    routing::{self, MethodRouter},
};
use lookup::{Access, Line, Routes};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use std::sync::Arc;

/// What a body holds.
#[derive(Clone, Copy)]
pub(crate) enum Payload {
    Nothing,
    Json(fn(&mut SchemaGenerator) -> Schema),
    Form(fn(&mut SchemaGenerator) -> Schema),
    /// Bytes of this media type.
    Raw(&'static str),
    /// Server-Sent Events.
    Events,
}

/// A header that a handler reads.
pub(crate) struct Header {
    pub(crate) name: &'static str,
    pub(crate) pattern: &'static str,
    pub(crate) what: &'static str,
}

/// One route.
pub(crate) struct Route {
    pub(crate) method: Method,
    pub(crate) path: &'static str,
    pub(crate) access: Access,
    /// Whether the internal listener serves it too.
    pub(crate) internal: bool,
    pub(crate) summary: &'static str,
    pub(crate) query: Option<fn(&mut SchemaGenerator) -> Schema>,
    pub(crate) headers: &'static [Header],
    pub(crate) request: Payload,
    response: Payload,
    status: u16,
    /// What it may answer instead.
    also: Option<(u16, Payload)>,
    /// Statuses of refusals, beside those that every route shares.
    pub(crate) errors: &'static [u16],
    handler: MethodRouter<Arc<App>>,
}

impl Route {
    fn new(
        method: Method,
        path: &'static str,
        handler: MethodRouter<Arc<App>>,
        summary: &'static str,
    ) -> Self {
        Self {
            method,
            path,
            access: Access::Chat,
            internal: false,
            summary,
            query: None,
            headers: &[],
            request: Payload::Nothing,
            response: Payload::Nothing,
            status: 200,
            also: None,
            errors: &[],
            handler,
        }
    }

    fn get<T: 'static>(
        path: &'static str,
        handler: impl Handler<T, Arc<App>>,
        summary: &'static str,
    ) -> Self {
        Self::new(Method::GET, path, routing::get(handler), summary)
    }

    fn post<T: 'static>(
        path: &'static str,
        handler: impl Handler<T, Arc<App>>,
        summary: &'static str,
    ) -> Self {
        Self::new(Method::POST, path, routing::post(handler), summary)
    }

    fn put<T: 'static>(
        path: &'static str,
        handler: impl Handler<T, Arc<App>>,
        summary: &'static str,
    ) -> Self {
        Self::new(Method::PUT, path, routing::put(handler), summary)
    }

    fn patch<T: 'static>(
        path: &'static str,
        handler: impl Handler<T, Arc<App>>,
        summary: &'static str,
    ) -> Self {
        Self::new(Method::PATCH, path, routing::patch(handler), summary)
    }

    fn delete<T: 'static>(
        path: &'static str,
        handler: impl Handler<T, Arc<App>>,
        summary: &'static str,
    ) -> Self {
        Self { status: 204, ..Self::new(Method::DELETE, path, routing::delete(handler), summary) }
    }

    fn public(self) -> Self {
        Self { access: Access::Public, ..self }
    }

    fn owner(self) -> Self {
        Self { access: Access::Owner, ..self }
    }

    fn internal_too(self) -> Self {
        Self { internal: true, ..self }
    }

    fn asks<T: JsonSchema>(self) -> Self {
        Self { query: Some(T::json_schema), ..self }
    }

    fn reads(self, headers: &'static [Header]) -> Self {
        Self { headers, ..self }
    }

    fn takes<T: JsonSchema>(self) -> Self {
        Self { request: Payload::Json(SchemaGenerator::subschema_for::<T>), ..self }
    }

    fn takes_form<T: JsonSchema>(self) -> Self {
        Self { request: Payload::Form(SchemaGenerator::subschema_for::<T>), ..self }
    }

    fn takes_raw(self, media: &'static str) -> Self {
        Self { request: Payload::Raw(media), ..self }
    }

    fn gives<T: JsonSchema>(self) -> Self {
        Self { response: Payload::Json(SchemaGenerator::subschema_for::<T>), ..self }
    }

    fn gives_events(self) -> Self {
        Self { response: Payload::Events, ..self }
    }

    fn or_gives<T: JsonSchema>(self, status: u16) -> Self {
        let payload = Payload::Json(SchemaGenerator::subschema_for::<T>);
        Self { also: Some((status, payload)), ..self }
    }

    fn gives_raw(self, media: &'static str) -> Self {
        Self { response: Payload::Raw(media), ..self }
    }

    /// Each status with which it answers when it does not refuse, and what then comes.
    pub(crate) fn answers(&self) -> impl Iterator<Item = (u16, Payload)> {
        [(self.status, self.response)].into_iter().chain(self.also)
    }

    fn status(self, status: u16) -> Self {
        Self { status, ..self }
    }

    fn errors(self, errors: &'static [u16]) -> Self {
        Self { errors, ..self }
    }
}

/// The table as the guard reads it.
pub(crate) fn lookup(table: &[Route]) -> Routes {
    let line = |&Route { ref method, path, access, internal, .. }: &Route| Line {
        method: method.clone(),
        path,
        access,
        internal,
    };
    Routes(table.iter().map(line).collect())
}

/// The router of the whole table. What the guard turns away never gets here.
pub(crate) fn router(table: Vec<Route>, app: Arc<App>) -> Router {
    table
        .into_iter()
        .fold(Router::new(), |router, route| router.route(route.path, route.handler))
        .with_state(app)
}

#[cfg(test)]
mod tests {
    use super::lookup::{Listener, RouteMatch};
    use super::*;
    use crate::path;
    use std::collections::BTreeSet;

    #[test]
    fn only_these_are_served_without_a_token() {
        let public: Vec<_> = table()
            .into_iter()
            .filter(|route| route.access == Access::Public)
            .map(|route| route.path)
            .collect();
        assert_eq!(public, ["/livez", "/readyz"]);
    }

    #[test]
    fn the_internal_listener_serves_only_these() {
        let internal: Vec<_> =
            table().into_iter().filter(|route| route.internal).map(|route| route.path).collect();
        assert_eq!(internal, ["/livez", "/chat"]);
    }

    #[test]
    fn no_route_stands_twice_and_none_hides_another() {
        let table = table();
        let mut seen = BTreeSet::new();
        for route in &table {
            assert!(seen.insert((route.method.to_string(), route.path)), "{}", route.path);
            let sample = route.path.replace(['{', '}'], "");
            let matching: Vec<_> = table
                .iter()
                .filter(|other| other.method == route.method && path::matches(other.path, &sample))
                .map(|other| other.path)
                .collect();
            assert_eq!(matching, [route.path]);
        }
    }

    #[test]
    fn a_path_is_found_with_its_methods() {
        let routes = lookup(&table());
        let find = |listener, method: Method, path| routes.find(listener, &method, path);
        assert!(matches!(
            find(Listener::Public, Method::GET, "/v1/turns/x"),
            RouteMatch::Route(Access::Chat)
        ));
        assert!(matches!(
            find(Listener::Public, Method::GET, "/v1/tokens"),
            RouteMatch::Route(Access::Owner)
        ));
        assert!(matches!(
            find(Listener::Public, Method::PUT, "/v1/me"),
            RouteMatch::WrongMethod { allow, access: Access::Chat } if allow == "GET, PATCH"
        ));
        assert!(matches!(
            find(Listener::Public, Method::POST, "/livez"),
            RouteMatch::WrongMethod { allow, access: Access::Public } if allow == "GET"
        ));
        assert!(matches!(find(Listener::Public, Method::GET, "/nowhere"), RouteMatch::Nothing));
        assert!(matches!(find(Listener::Internal, Method::GET, "/v1/me"), RouteMatch::Nothing));
        assert!(matches!(
            find(Listener::Internal, Method::POST, "/chat"),
            RouteMatch::Route(Access::Chat)
        ));
    }
}
